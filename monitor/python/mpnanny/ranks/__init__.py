"""What ranks of one training are compared by when their databases are read together. Nothing is
sent between ranks for it.
"""
