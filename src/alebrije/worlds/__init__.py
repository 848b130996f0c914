"""How scenes are drawn: each world's vocabulary, sampler and look; tasks and analogies."""
