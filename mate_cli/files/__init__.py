"""Safe reading, atomic writing, files of the Hugging Face Hub, and trusted `_target_`s."""
