"""The coordinator's side of secure aggregation, without a transport.

machine     the five stages: requests out, replies in, who is left
requests    what each stage asks of each party
sets        who is in a sum, so that earlier sums and it do not tell what one party voted
history     who was in earlier sums, and who is not asked any more
intake      what is checked of each reply; a bad one leaves its party out by name
unmasking   secrets rebuilt and verified, masks removed, the sum checked
repair      shares that do not fit the others
state       what a crashed coordinator goes on from
drive       all stages in order, over any transport
"""
