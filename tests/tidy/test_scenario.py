"""Every scenario that the reference's own tests of its V5 client have is one of ours, by name.

`SCENARIOS` are shown by the suite that runs async and sync, on our broker and on Apache Pulsar.
`ELSEWHERE` cannot be seen through a client alone, or needs a broker of its own. `EDGES` are the
rough edges of the reference: what ours does better there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

import pytest

from tests.tidy.source import ROOT

SCENARIOS: Final[Mapping[str, str]] = {
    "Smoke": "producer: what_is_sent_is_received_with_all_that_was_said_about_it",
    "AsyncApis": """
        producer: sends_that_are_not_awaited_keep_their_order_and_are_done_after_flush
        queue: what_is_acknowledged_does_not_come_again_and_the_rest_does
        stream: one_acknowledgement_of_the_last_message_empties_all_segments
        checkpoint: a_reader_goes_on_where_its_checkpoint_says
        lifecycle: closing_a_client_closes_all_it_made_and_again_does_nothing""",
    "ClientLifecycle": """
        lifecycle: closing_a_client_closes_all_it_made_and_again_does_nothing
        lifecycle: a_client_that_ends_at_once_fails_what_is_not_stored
        lifecycle: what_is_no_transaction_is_refused_wherever_one_could_be_given""",
    "ClientBuilderConfig": """
        lifecycle: brokers_list_a_client_by_its_description
        consumer: the_memory_limit_holds_sends_back_and_loses_none
        telemetry: what_is_sent_received_and_acknowledged_is_counted""",
    "ConcurrentProducersConsumers": """
        queue: many_producers_and_consumers_pass_every_message_once""",
    "MultipleConsumers": """
        queue: consumers_share_every_message_exactly_once
        checkpoint: readers_do_not_take_from_each_other
        stream: consumers_share_the_segments_and_no_key_is_split
        stream: a_consumer_that_comes_back_under_its_name_has_its_segments_at_once
        stream: the_segments_of_a_consumer_that_leaves_go_to_the_others""",
    "ConsumerPriorityLevel": """
        queue: who_comes_first_gets_everything_while_there_is_room
        queue: what_the_first_has_no_room_for_goes_to_the_second""",
    "ConsumerReceiverQueueSize": """
        queue: no_more_is_held_of_each_segment_than_the_receiver_queue_takes""",
    "QueueConsumerBasic": """
        queue: messages_of_one_segment_come_in_order_and_a_consumer_says_who_it_is
        queue: a_refused_message_comes_again_after_its_delay
        producer: what_is_sent_is_received_with_all_that_was_said_about_it""",
    "QueueConsumerMultiSegmentAck": """
        queue: all_segments_are_empty_after_each_message_is_acknowledged
        queue: what_is_acknowledged_does_not_come_again_and_the_rest_does""",
    "ProcessingTimeout": "redelivery: a_message_that_is_not_acknowledged_in_time_comes_again",
    "DeadLetterPolicy": """
        redelivery: a_message_delivered_too_often_becomes_a_dead_letter
        queue: a_message_delivered_too_often_goes_to_the_dead_letter_topic""",
    "StreamConsumerBasic": """
        stream: messages_of_one_segment_come_in_order_and_a_consumer_says_who_it_is
        stream: a_batch_of_messages_knows_its_last_id""",
    "CumulativeAck": """
        stream: one_acknowledgement_of_the_last_message_empties_all_segments
        stream: an_acknowledgement_covers_what_was_received_before_and_nothing_else
        stream: nothing_comes_again_of_parents_and_children_that_were_acknowledged""",
    "SubscriptionInitialPosition": """
        queue: the_initial_position_decides_about_what_was_sent_before
        stream: the_initial_position_decides_about_what_was_sent_before""",
    "StreamConsumerDagReplay": "stream: a_fresh_subscription_replays_all_generations_in_order",
    "StreamConsumerAutoReconnect": "reconnect: a_stream_that_was_cut_off_keeps_its_share",
    "DagWatchAutoReconnect": """
        reconnect: a_producer_and_a_queue_go_on_and_see_the_layout_change_afterwards""",
    "DAGFollowing": """
        queue: a_new_subscription_gets_sealed_and_active_segments
        queue: a_split_and_a_merge_in_between_lose_nothing_and_repeat_nothing""",
    "KeyRouting": """
        stream: one_acknowledgement_of_the_last_message_empties_all_segments
        stream: two_hundred_keys_come_once_each
        producer: keys_are_spread_over_the_segments_and_each_stays_in_order""",
    "SegmentSplit": "queue: who_is_attached_stays_so_while_segments_change",
    "SegmentMerge": "queue: who_is_attached_stays_so_while_segments_change",
    "ProducerSplitRetry": "producer: a_send_right_after_a_split_succeeds",
    "ScalableTopicAutoCreate": """
        producer: a_missing_topic_is_made_where_the_broker_does_that
        checkpoint: a_topic_that_is_not_there_is_not_found_or_made
        producer: a_missing_topic_is_not_found_where_the_namespace_makes_none""",
    "ScalableSubscriptionAdmin": """
        queue: a_subscription_made_over_rest_gets_what_was_sent_before_any_consumer""",
    "SeekSubscription": "queue: a_subscription_is_moved_to_a_mark_and_emptied_over_rest",
    "CheckpointConsumerBasic": """
        checkpoint: the_start_decides_what_is_read
        checkpoint: a_reader_goes_on_where_its_checkpoint_says""",
    "CheckpointConsumerDagReplay": """
        checkpoint: keys_stay_in_order_across_splits_and_merges
        checkpoint: a_group_reads_all_generations_of_segments""",
    "CheckpointConsumerGroup": """
        checkpoint: the_members_of_a_group_share_the_segments
        checkpoint: a_member_that_joins_shares_what_comes_from_then_on
        checkpoint: a_group_goes_on_from_a_checkpoint_across_a_split_and_a_merge
        checkpoint: a_reader_goes_on_through_a_split_and_a_merge_it_was_not_there_for
        checkpoint: a_group_whose_members_are_gone_has_none_left_at_the_broker""",
    "CheckpointConsumerSkipDeletedSegment": """
        wiped: a_reader_passes_over_a_segment_whose_data_is_gone
        wiped: consumers_of_every_kind_go_on_without_the_data_of_wiped_segments""",
    "MessageMetadata": """
        producer: what_is_sent_is_received_with_all_that_was_said_about_it
        redelivery: a_delayed_message_comes_no_earlier""",
    "ProducerBatching": "producer: batched_or_compressed_everything_arrives",
    "ProducerCompression": "producer: batched_or_compressed_everything_arrives",
    "ProducerFlowControl": """
        producer: a_send_without_a_receipt_in_time_says_so
        producer: one_that_may_not_wait_for_room_is_told_that_there_is_none""",
    "ProducerSequenceId": """
        producer: sequence_ids_count_up_from_where_they_are_told
        producer: a_sequence_id_that_was_stored_is_not_stored_again""",
    "ProducerAccessMode": """
        producer: producers_that_share_a_topic_do_not_mind_each_other
        producer: a_second_exclusive_producer_is_refused_while_the_first_works
        producer: a_producer_that_waits_to_be_alone_takes_over_and_follows_a_split""",
    "SchemaRoundtrip": "schema: a_value_of_every_schema_comes_back",
    "SchemaEvolution": """
        schema: a_topic_has_one_history_of_schemas_across_a_split
        schema: old_messages_are_read_with_a_newer_schema
        schema: a_schema_that_does_not_fit_is_refused""",
    "Encryption": """
        encryption: whoever_has_the_key_reads_what_was_encrypted
        encryption: without_the_key_a_consumer_does_what_it_was_told""",
    "MultiTopicQueueConsumer": """
        namespace: a_queue_over_a_namespace_follows_the_topics_that_match""",
    "MultiTopicStreamConsumer": """
        namespace: a_stream_over_a_namespace_follows_the_topics_that_match
        namespace: one_cumulative_acknowledgement_covers_all_topics_of_a_namespace
        namespace: what_is_not_acknowledged_when_the_consumer_leaves_comes_again""",
    "NamespaceConsumerTopicDeletion": """
        namespace: a_queue_over_a_namespace_follows_the_topics_that_match""",
    "RegularTopicInterop": """
        layout: keys_of_a_partitioned_topic_go_where_other_producers_put_them
        layout: regular_topics_are_consumed_like_scalable_ones
        producer: names_that_cannot_be_are_refused_with_what_to_write""",
    "MigrationEndToEnd": "migration: a_producer_goes_on_while_its_topic_becomes_scalable",
    "EntryBucketDispatch": """
        bucket: two_consumers_share_one_segment_by_keys
        bucket: one_that_joins_leaves_and_comes_back_under_traffic_breaks_no_order
        bucket: a_bucket_moves_once_what_was_received_of_it_is_acknowledged""",
    "Transaction": """
        transaction: topics_show_what_is_committed_together_and_nothing_of_what_is_aborted
        transaction: input_is_acknowledged_with_the_output_and_comes_again_without_it
        transaction: a_conflict_aborts_the_transaction_that_came_second
        transaction: a_transaction_goes_on_across_a_split_and_a_merge
        transaction: a_transaction_that_is_not_ended_in_time_is_aborted""",
}
ELSEWHERE: Final[Mapping[str, str]] = {
    "ClientBuilderConfig": """
        unit/client/test_lookup.py: the_name_of_a_listener_goes_with_every_lookup""",
    "ConsumerSubscriptionProperties": """
        unit/client/test_consumer_set.py: properties_are_told_on_every_segment""",
    "SegmentReconciliation": """
        unit/broker/scalable/test_service.py: \
an_active_segment_without_a_topic_is_made_by_whoever_attaches_first
        unit/broker/scalable/test_wipe.py: \
a_sealed_segment_whose_data_was_wiped_is_not_made_again
        unit/broker/scalable/test_segment.py: a_name_that_is_no_segment_cannot_be_loaded_as_one""",
    "SegmentLoadReporter": """
        unit/broker/scalable/test_load.py: the_load_goes_with_its_segment""",
    "MessageReplicationClusters": """
        unit/client/test_lookup.py: the_clusters_a_message_is_for_are_written_on_it""",
    "TlsProducerConsumer": """
        interop/security/test_sdk.py: a_message_passes_for_each_kind_of_proof
        interop/security/test_sdk.py: a_scalable_topic_is_used_over_tls_with_a_token""",
    "NamespaceConsumerTopicDeletion": """
        unit/client/test_layout.py: only_the_first_look_makes_a_missing_topic""",
    "ScalableTopicsWatcher": """
        unit/client/test_pattern.py: topics_come_and_go_by_push
        unit/client/test_pattern.py: \
a_lost_watch_comes_back_with_the_hash_of_what_it_knows""",
    "MultiBrokerScalableTopic": """
        interop/zookeeper/test_wrong_broker.py: \
a_scalable_topic_is_used_through_the_wrong_broker""",
    "Proxy": """
        unit/client/test_lookup.py: a_broker_behind_a_proxy_is_reached_through_it_by_its_name""",
}
EDGES: Final[Mapping[int, str]] = {
    1: "producer: pipelined_sends_keep_every_key_in_order_across_splits_and_merges",
    2: """
        unit/client/test_producer_set.py: \
a_producer_that_could_not_be_made_is_tried_again_with_the_next_message
        unit/client/test_stream.py: a_busy_segment_is_tried_until_it_is_free
        unit/client/test_consumer_set.py: \
a_dead_letter_topic_that_could_not_be_reached_is_tried_again""",
    3: """
        unit/client/test_layout.py: \
a_watch_that_is_lost_comes_back_with_what_changed_meanwhile""",
    4: """
        unit/client/test_layout.py: a_broker_that_never_answers_is_given_up_in_time
        unit/client/test_stream.py: a_controller_that_never_answers_is_given_up_in_time
        unit/client/test_hostile_peer.py: \
a_broker_that_never_answers_is_a_timeout_to_whoever_asks""",
    5: """
        unit/client/test_stream.py: \
one_that_leaves_says_so_and_one_that_is_cut_off_does_not
        stream: the_segments_of_a_consumer_that_leaves_go_to_the_others""",
    6: "unit/client/test_stream.py: a_busy_segment_is_tried_until_it_is_free",
    7: "rough_edge: any_form_of_a_name_finds_the_scalable_topic",
    8: "interop/security/test_sdk.py: a_scalable_topic_is_used_over_tls_with_a_token",
    9: """
        unit/client/test_consumer_set.py: \
an_acknowledgement_that_can_reach_nobody_is_not_silent
        unit/client/test_consumer.py: \
a_receipt_of_an_acknowledgement_is_awaited_and_its_error_raised""",
    10: "stream: an_acknowledgement_covers_what_was_received_before_and_nothing_else",
    11: """
        checkpoint: a_checkpoint_taken_before_anything_came_is_where_the_reader_started
        checkpoint: keys_stay_in_order_across_splits_and_merges
        checkpoint: the_start_decides_what_is_read""",
    12: """
        rough_edge: a_checkpoint_consumer_decrypts_with_keys_that_take_their_time
        unit/client/test_consumer_set.py: properties_are_told_on_every_segment
        rough_edge: a_namespace_queue_buries_what_was_delivered_too_often
        lifecycle: what_is_no_transaction_is_refused_wherever_one_could_be_given
        unit/client/test_pool.py: the_backoff_says_when_the_broker_is_asked_again
        redelivery: a_message_put_aside_comes_again_through_the_retry_topic_then_is_buried
        redelivery: a_dead_letter_topic_gets_its_first_subscription_with_the_first_letter""",
    13: """
        redelivery: the_delay_of_a_refused_message_grows_with_its_deliveries
        queue: a_refused_message_comes_again_after_its_delay
        redelivery: the_time_to_process_starts_when_the_application_gets_the_message""",
    14: """
        rough_edge: a_producer_has_a_name_and_its_messages_tell_it
        rough_edge: what_a_broker_refuses_is_an_error_of_its_own_kind
        rough_edge: any_form_of_a_name_finds_the_scalable_topic""",
    15: """
        unit/client/test_producer_set.py: \
unkeyed_messages_stay_on_a_segment_for_the_time_of_a_batch""",
    16: "rough_edge: a_large_message_is_cut_although_small_ones_are_batched",
    17: """
        producer: sends_that_are_not_awaited_keep_their_order_and_are_done_after_flush
        producer: a_closed_producer_sends_nothing_more""",
    18: """
        queue: no_more_is_held_of_each_segment_than_the_receiver_queue_takes
        queue: whoever_waits_hears_that_the_consumer_is_closed""",
    19: "rough_edge: many_are_received_as_soon_as_there_is_one",
    20: """
        unit/client/test_authentication.py: \
a_method_of_several_steps_answers_each_before_it_is_connected
        rough_edge: a_checkpoint_consumer_decrypts_with_keys_that_take_their_time""",
    21: """
        queue: a_split_and_a_merge_in_between_lose_nothing_and_repeat_nothing
        queue: a_subscription_made_over_rest_gets_what_was_sent_before_any_consumer""",
    22: "rough_edge: keys_may_go_where_classic_producers_put_them",
}


def lines(text: str) -> Iterator[tuple[str, str]]:
    """The file and the name of each test."""
    for line in text.strip().splitlines():
        place, _, name = line.strip().partition(": ")
        path = place if place.endswith(".py") else f"contract/test_sdk_{place}.py"
        yield path, f"test_{name}"


@cache
def parameters(path: str) -> Mapping[str, frozenset[str]]:
    """What each test of a file asks for."""
    tree = ast.parse((ROOT / "tests" / path).read_text())
    return {
        node.name: frozenset(each.arg for each in node.args.args)
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_is_shown_on_both_clients_and_both_brokers(name: str) -> None:
    for path, test in lines(SCENARIOS[name]):
        assert "place" in parameters(path).get(test, ()), f"{path} has no {test} on a place"


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_scenario_that_needs_more_than_a_client_is_shown(name: str) -> None:
    for path, test in lines(ELSEWHERE[name]):
        assert test in parameters(path), f"{path} has no {test}"


@pytest.mark.parametrize("number", range(1, 23))
def test_ours_does_better_where_the_reference_is_rough(number: int) -> None:
    for path, test in lines(EDGES[number]):
        assert test in parameters(path), f"{path} has no {test}"
