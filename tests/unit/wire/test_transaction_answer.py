from hypothesis import given
from hypothesis import strategies as st

from magnetar.model.transaction import TransactionId
from magnetar.wire.command import (
    BaseCommand,
    CommandAddPartitionToTxnResponse,
    CommandAddSubscriptionToTxnResponse,
    CommandEndTxnOnPartitionResponse,
    CommandEndTxnOnSubscriptionResponse,
    CommandEndTxnResponse,
    CommandNewTxnResponse,
    encode_command,
    make_command,
)
from magnetar.wire.transaction_answer import encode_transaction_answer

BODIES = {
    BaseCommand.NEW_TXN_RESPONSE: CommandNewTxnResponse,
    BaseCommand.ADD_PARTITION_TO_TXN_RESPONSE: CommandAddPartitionToTxnResponse,
    BaseCommand.ADD_SUBSCRIPTION_TO_TXN_RESPONSE: CommandAddSubscriptionToTxnResponse,
    BaseCommand.END_TXN_RESPONSE: CommandEndTxnResponse,
    BaseCommand.END_TXN_ON_PARTITION_RESPONSE: CommandEndTxnOnPartitionResponse,
    BaseCommand.END_TXN_ON_SUBSCRIPTION_RESPONSE: CommandEndTxnOnSubscriptionResponse,
}
NUMBERS = st.integers(0, 2**64 - 1)


@given(st.sampled_from(list(BODIES)), NUMBERS, NUMBERS, NUMBERS)
def test_an_answer_is_spelled_as_the_generated_class_does(
    kind: int, request_id: int, most: int, least: int
) -> None:
    body = BODIES[kind](request_id=request_id, txnid_most_bits=most, txnid_least_bits=least)
    spelled = encode_transaction_answer(kind, request_id, TransactionId(most, least))
    assert spelled == encode_command(make_command(body))
