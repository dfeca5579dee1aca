"""The network: models found on the Hugging Face Hub and pulled from it."""
