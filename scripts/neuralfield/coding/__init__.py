"""Images as coded latents: integer arithmetic of the decoder, range coder and file; docs/format.md.

A decoder makes the same pixels on every machine, because all of its arithmetic is of integers.
"""
