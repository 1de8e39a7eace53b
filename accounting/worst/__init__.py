"""The worst case, over all votes, of what leaves a noisy argmax or a threshold check: public, no function of votes."""
