"""The ray tracer as compiled loops, imported only on a CPU.

Each file repeats the arithmetic of the file of the same name beside this folder, in float32 and in the same order, so
both give the same bits. Points and rays are handled in blocks: each quantity is a row of a small scratch array, and the
loops over a row become vector instructions. What torch computes in ways of its own, such as powers and exponentials,
stays in torch.
"""
