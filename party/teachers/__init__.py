"""A party's teachers: how they are trained on disjoint shards, kept, and asked."""
