# mate in a container: docker build -t mate . ; docker run --rm -v "$PWD:/work" mate train experiment=quickstart logger=none
# For GPUs: docker build -t mate:cuda --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu128 .
#           docker run --rm --gpus all -v "$PWD:/work" mate:cuda train experiment=quickstart logger=none
FROM python:3.11.13-slim-bookworm

ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

# g++ compiles the attention kernels of CPUs when they are first used.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/mate
COPY constraints.txt ./
RUN pip install "$(grep '^torch==' constraints.txt)" --index-url "$TORCH_INDEX"
COPY pyproject.toml README.md LICENSE ./
COPY conf conf
COPY hydra_plugins hydra_plugins
COPY mate_cli mate_cli
RUN pip install -c constraints.txt ".[minilm,sql]"

# Files in the mounted folder belong to whom they belong outside: docker run --user "$(id -u):$(id -g)" where that is not 1000.
RUN useradd --create-home --uid 1000 mate && mkdir /work && chown mate /work
USER mate
ENV HOME=/home/mate MATE_CACHE=/home/mate/.cache/mate
WORKDIR /work
ENTRYPOINT ["mate"]
CMD ["--help"]
