// Browsers give no workers to pages that are opened from a folder; there the search runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inner = frame.contentWindow;
      this.waiting = [];
      this.inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.load(address).then(() => {
        const waiting = this.waiting;
        this.waiting = null;
        waiting.forEach((data) => this.postMessage(data));
      });
    }

    load(file) {
      return new Promise((resolve, reject) => {
        const script = this.inner.document.createElement("script");
        Object.assign(script, { src: new URL(file, location.href).href, onload: resolve, onerror: reject });
        this.inner.document.head.append(script);
      });
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.inner.dispatchEvent(new MessageEvent("message", { data }));
    }
  };
}
