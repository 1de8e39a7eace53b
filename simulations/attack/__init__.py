"""What a sceptic tries on a simulated run before signing, beside the same run without its noise.

targets     whom the attacker looks for, as the votes that a federation has with it and without it
membership  who holds what was released, or the student alone, says whether the target was there
liars       what parties that vote against the truth do to the student
command     `consilium attack RUN`

An attack that fails proves nothing: the guarantee bounds every attacker, and those that nobody has thought of.
"""
