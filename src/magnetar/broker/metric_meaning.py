"""What each series of /metrics says, for the HELP line above it; a test holds the names to it.

Messages of a batch count as many; a backlog counts entries, as Pulsar's does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from magnetar.rules.transaction.coordinator import LATENCIES_MS

_SUMMED: Final[Mapping[str, str]] = {
    "rate_in": "Messages published per second",
    "rate_out": "Messages delivered per second",
    "throughput_in": "Bytes published per second",
    "throughput_out": "Bytes delivered per second",
    "storage_size": "Bytes stored, copies included",
    "storage_logical_size": "Bytes stored, copies not included",
    "msg_backlog": "Entries that subscriptions have not acknowledged",
    "topics_count": "Topics that are loaded",
    "subscriptions_count": "Subscriptions",
    "producers_count": "Producers that are connected",
    "consumers_count": "Consumers that are connected",
}
"""Told of a topic or a namespace, and of the whole broker."""

_OF_CLIENT: Final[Mapping[str, str]] = {
    "msg_rate_out": "Messages delivered per second",
    "msg_throughput_out": "Bytes delivered per second",
    "msg_rate_redeliver": "Messages delivered again per second",
    "msg_ack_rate": "Messages acknowledged per second",
    "unacked_messages": "Messages delivered and not acknowledged",
    "blocked_on_unacked_messages": "1 while too many messages are not acknowledged",
}
"""Told of a subscription and of a consumer."""

MEANINGS: Final[Mapping[str, str]] = {
    **{f"pulsar_{name}": meaning for name, meaning in _SUMMED.items()},
    **{f"pulsar_broker_{name}": f"{each}, of this broker" for name, each in _SUMMED.items()},
    **{f"pulsar_subscription_{name}": meaning for name, meaning in _OF_CLIENT.items()},
    **{f"pulsar_consumer_{name}": meaning for name, meaning in _OF_CLIENT.items()},
    "pulsar_average_msg_size": "Bytes of a published message on average",
    "pulsar_storage_backlog_size": "Bytes that the slowest subscription has not acknowledged",
    "pulsar_storage_offloaded_size": "Bytes moved to other storage",
    "pulsar_storage_backlog_quota_limit": "Bytes that the backlog may have; -1: no limit",
    "pulsar_storage_backlog_quota_limit_time": "Seconds that a backlog may be old; -1: no limit",
    "pulsar_storage_write_rate": "Messages stored per second",
    "pulsar_storage_read_rate": "Messages read per second",
    "pulsar_in_messages_total": "Messages published",
    "pulsar_in_bytes_total": "Bytes published",
    "pulsar_out_messages_total": "Messages delivered",
    "pulsar_out_bytes_total": "Bytes delivered",
    "pulsar_publish_rate_limit_times": "Times that producers were paused by a publish rate",
    "pulsar_subscription_back_log": "Entries that the subscription has not acknowledged",
    "pulsar_subscription_back_log_no_delayed": "Entries of its backlog that are not delayed",
    "pulsar_subscription_delayed": "Messages whose delivery time has not come",
    "pulsar_subscription_msg_rate_expired": "Messages expired per second",
    "pulsar_subscription_total_msg_expired": "Messages expired",
    "pulsar_subscription_last_acked_timestamp": "Milliseconds since 1970 at the last ack",
    "pulsar_subscription_last_consumed_timestamp": "Milliseconds since 1970 at the last delivery",
    "pulsar_subscription_last_expire_timestamp": "Milliseconds since 1970 at the last expiry",
    "pulsar_subscription_last_mark_delete_advanced_timestamp": (
        "Milliseconds since 1970 at which everything up to a message was last acknowledged"
    ),
    "pulsar_subscription_consumers_count": "Consumers of the subscription",
    "pulsar_consumer_available_permits": "Messages that the consumer has asked for",
    "pulsar_producer_msg_rate_in": "Messages published per second",
    "pulsar_producer_msg_throughput_in": "Bytes published per second",
    "pulsar_producer_msg_average_Size": "Bytes of a published message on average",
    "pulsar_scalable_topic_active_segments": "Segments of a scalable topic that take messages",
    "pulsar_scalable_topic_auto_splits_total": "Splits made by load",
    "pulsar_scalable_topic_auto_merges_total": "Merges made by load",
    "pulsar_scalable_topic_split_suppressed_max_segments_total": (
        "Splits not made for the most segments a topic may have"
    ),
    "pulsar_scalable_topic_merge_suppressed_max_depth_total": (
        "Merges not made for the longest lineage a topic may have"
    ),
    "magnetar_segment_load_writes_total": "Load reports of segments written to the metadata",
    "magnetar_migrations_total": "Migrations to scalable topics, by how they ended",
    "magnetar_legacy_client_refusals_total": (
        "Calls of older clients for a topic that became scalable, by where they were refused"
    ),
    "magnetar_segment_recalls_total": "Sealed segments taken from a silent consumer for another",
    "magnetar_ledger_queued_bytes": "Bytes that wait to be written",
    "magnetar_journal_groups_total": "Group commits of the journal",
    "magnetar_journal_syncs_total": "Syncs of the journal",
    "magnetar_journal_bytes_total": "Bytes written to the journal",
    "magnetar_journal_write_seconds_total": "Seconds that group commits took, write and sync",
    "magnetar_bookie_connections_total": "Connections made to a bookie",
    "magnetar_bookie_adds_total": "Entries sent to a bookie",
    "magnetar_bookie_add_bytes_total": "Bytes of entries sent to a bookie",
    "magnetar_bookie_add_failures_total": "Times a bookie refused entries or was replaced",
    "magnetar_bookie_reads_total": "Reads asked of a bookie",
    "magnetar_bookie_read_failures_total": "Reads that a bookie did not answer",
    "pulsar_version_info": "Always 1; the version is a label",
    "magnetar_transaction_open_bytes": "Bytes that transactions wrote which have not ended",
    "pulsar_txn_active_count": "Transactions under way",
    "pulsar_txn_committed_total": "Transactions committed",
    "pulsar_txn_aborted_total": "Transactions aborted",
    "pulsar_txn_timeout_total": "Transactions ended by their timeout",
    "pulsar_txn_created_total": "Transactions begun",
    "pulsar_txn_append_log_total": "Entries written to the journal of a coordinator",
    "pulsar_txn_tb_client_pending_requests": "Transactions whose outcome some topic has not got",
    "pulsar_txn_tb_client_commit_failed_total": "Times a topic could not be given a commit",
    "pulsar_txn_tb_client_abort_failed_total": "Times a topic could not be given an abort",
    "pulsar_txn_tb_client_commit_latency": "Nanoseconds that topics took to apply a commit",
    "pulsar_txn_tb_client_abort_latency": "Nanoseconds that topics took to apply an abort",
    "pulsar_txn_tp_committed_count_total": "Commits, by subscription that they acknowledged on",
    "pulsar_txn_tp_commit_latency": "Microseconds that commits took to be durable, by subscription",
    "pulsar_txn_tp_aborted_count_total": "Aborts, by subscription that they acknowledged on",
    **{
        f"pulsar_txn_{kind}_bufferedwriter_{name}": meaning.format(whose)
        for kind, whose in (("tc", "coordinators"), ("pending_ack_store", "topics"))
        for name, meaning in (
            ("batch_records", "Entries in the journals of {}, by their records"),
            ("batch_size_bytes", "Entries in the journals of {}, by their bytes"),
            (
                "batch_oldest_record_delay_seconds",
                "Entries in the journals of {}, by how long the first record waited for a commit",
            ),
            (
                "flush_trigger_max_records_total",
                "Entries in the journals of {} that left before the commit because they were full",
            ),
        )
    },
    **{
        f"pulsar_txn_execution_latency_le_{limit}": (
            "Transactions by the time from their begin to the decision, up to so many ms"
        )
        for limit in (*LATENCIES_MS, "overflow")
    },
    "process_cpu_seconds_total": "Seconds of processor time of the broker's process",
    "process_start_time_seconds": "Seconds since 1970 at which the broker started",
    "process_resident_memory_bytes": "Bytes of memory of the broker's process",
    "jvm_memory_bytes_used": "Bytes of memory, under the name that Pulsar's dashboards ask for",
}
