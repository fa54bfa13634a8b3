"""tmp"""
from .schedule import Buffer, Recv, Reduce, Schedule, Send
from .registry import register
from .proof import prove
