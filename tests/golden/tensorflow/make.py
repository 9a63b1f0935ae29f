"""How the files beside this one were made: by TensorFlow's own Saver, with the names that google-research/tapas uses.

No test runs this. It wants tensorflow-cpu (2.21.0 was used) in an environment of its own:

    python tests/golden/tensorflow/make.py
"""

from pathlib import Path

import numpy as np
import tensorflow as tf

HERE = Path(__file__).parent
WIDTH, LAYERS, INNER, WORDS, POSITIONS = 4, 2, 6, 20, 12
TYPES = (3, 256, 256, 2, 256, 256, 10)


def shapes():
    yield "bert/embeddings/word_embeddings", (WORDS, WIDTH)
    yield "bert/embeddings/position_embeddings", (POSITIONS, WIDTH)
    for number, size in enumerate(TYPES):
        yield f"bert/embeddings/token_type_embeddings_{number}", (size, WIDTH)
    yield from norm("bert/embeddings")
    for layer in range(LAYERS):
        place = f"bert/encoder/layer_{layer}"
        for part in ("query", "key", "value"):
            yield from dense(f"{place}/attention/self/{part}", WIDTH, WIDTH)
        yield from dense(f"{place}/attention/output/dense", WIDTH, WIDTH)
        yield from norm(f"{place}/attention/output")
        yield from dense(f"{place}/intermediate/dense", WIDTH, INNER)
        yield from dense(f"{place}/output/dense", INNER, WIDTH)
        yield from norm(f"{place}/output")
    yield from dense("bert/pooler/dense", WIDTH, WIDTH)
    yield "output_weights", (WIDTH,)
    yield "output_bias", ()
    yield "column_output_weights", (WIDTH,)
    yield "column_output_bias", ()
    yield "output_weights_agg", (4, WIDTH)
    yield "output_bias_agg", (4,)
    yield "output_weights_cls", (2, WIDTH)
    yield "output_bias_cls", (2,)


def dense(place, inputs, outputs):
    yield f"{place}/kernel", (inputs, outputs)
    yield f"{place}/bias", (outputs,)


def norm(place):
    yield f"{place}/LayerNorm/beta", (WIDTH,)
    yield f"{place}/LayerNorm/gamma", (WIDTH,)


def main():
    random = np.random.default_rng(5)
    values = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes()}
    np.savez_compressed(HERE / "values.npz", **values)
    slots = {
        f"{name}/{slot}": np.zeros_like(value)
        for name, value in values.items()
        if value.size < 100
        for slot in ("adam_m", "adam_v")
    }
    tf.compat.v1.disable_eager_execution()
    variables = [tf.compat.v1.Variable(value, name=name) for name, value in (values | slots).items()]
    variables.append(tf.compat.v1.train.get_or_create_global_step())
    with tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.global_variables_initializer())
        saver = tf.compat.v1.train.Saver(variables)
        saver.save(session, str(HERE / "model.ckpt"), write_meta_graph=False, write_state=False)
        in_two = tf.compat.v1.fixed_size_partitioner(2)
        sliced = tf.compat.v1.get_variable("sliced", shape=(10, 4), partitioner=in_two)
        session.run(tf.compat.v1.global_variables_initializer())
        place = str(HERE / "sliced" / "model.ckpt")
        tf.compat.v1.train.Saver([sliced]).save(session, place, write_meta_graph=False, write_state=False)


if __name__ == "__main__":
    main()
