"""Files: safe reading, atomic writing, downloads from the Hugging Face Hub, and trusted `_target_`s."""
