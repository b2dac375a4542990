"""The oracle of the contract, by the name that tests use."""

from trainer.contract.oracle import Bags as Bags
from trainer.contract.oracle import Event as Event
from trainer.contract.oracle import Oracle as Oracle
from trainer.contract.oracle import OracleSide as OracleSide
from trainer.contract.oracle import log_loss as log_loss
from trainer.contract.oracle import places as places
from trainer.contract.oracle import slope as slope
from trainer.contract.oracle import user_vector as user_vector

DUAL = ("naive", "euclidean", "entropic")
