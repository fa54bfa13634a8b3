"""A soak of backend ``ring``: many operations of every kind, and nothing left behind."""
