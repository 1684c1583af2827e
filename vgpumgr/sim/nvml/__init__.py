"""Real nvidia-ml-py over Python objects that stand in for ``libnvidia-ml.so``."""
