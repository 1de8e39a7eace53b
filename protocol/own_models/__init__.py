"""Models that others wrote: named by who runs them, built, guarded against what they may do wrong.

naming       from a dotted name or an entry point to the callable that is meant
keys         what a configuration says of such a model; reading it imports nothing
building     an untrained estimator, with the seed and one thread
guard        an estimator trained on whole numbers from 0, whose answers are looked at before they are used
rehearsal    the same on made-up rows, before any private row is touched or any question asked
torch_classifier    a torch module behind the methods of an estimator
backbones    a frozen network from a local folder, with a head that is trained
pickles      an untrained estimator in a file of one's own

Who names a model runs its code. A party's names stand in its own file, a student's in its own; no message carries one.
"""
