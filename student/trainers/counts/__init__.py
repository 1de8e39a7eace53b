"""Students that learn from noisy histograms: the noise is known, so nothing about it must be guessed.

regression   Bayesian linear regression on any features, its prior's scale by the evidence
features     what rows become: scaled columns, a kernel around landmarks, a graph's smoothest functions
softmax      the linear student: shares are the softmax of linear scores
smooth       the students with a kernel, and those with a graph
even         many classes that are named unequally often, made comparable
denoise      shares of all public rows, for trainers that need labels
automatic    which of them, by the evidence, or by cross-validation on labels
together     one trainer for labels and for histograms

All of it is post-processing of what was released, so it costs no privacy, whatever is chosen by it.
"""
