package lines

import "time"

// Settings are the protocol's; what is not asked for is nil.
type Settings struct {
	Acks                  *string  `json:"acks"`
	Idempotence           *bool    `json:"idempotence"`
	TransactionalID       *string  `json:"transactional_id"`
	TransactionTimeoutMs  *int     `json:"transaction_timeout_ms"`
	Compression           *string  `json:"compression"`
	Partitioner           *string  `json:"partitioner"`
	MaxRequestBytes       *int32   `json:"max_request_bytes"`
	LingerMs              *int     `json:"linger_ms"`
	BatchRecords          *int     `json:"batch_records"`
	BatchBytes            *int32   `json:"batch_bytes"`
	MaxInFlight           *int     `json:"max_in_flight"`
	DeliveryTimeoutMs     *int     `json:"delivery_timeout_ms"`
	GroupID               *string  `json:"group_id"`
	GroupInstanceID       *string  `json:"group_instance_id"`
	GroupProtocol         *string  `json:"group_protocol"`
	Assignors             []string `json:"assignors"`
	AutoCommit            *bool    `json:"auto_commit"`
	AutoCommitIntervalMs  *int     `json:"auto_commit_interval_ms"`
	OffsetReset           *string  `json:"offset_reset"`
	Isolation             *string  `json:"isolation"`
	FetchMaxWaitMs        *int     `json:"fetch_max_wait_ms"`
	FetchMaxBytes         *int32   `json:"fetch_max_bytes"`
	AutoCreateTopics      *bool    `json:"auto_create_topics"`
	SessionTimeoutMs      *int     `json:"session_timeout_ms"`
	HeartbeatIntervalMs   *int     `json:"heartbeat_interval_ms"`
	MaxPollIntervalMs     *int     `json:"max_poll_interval_ms"`
	MetadataRefreshMs     *int     `json:"metadata_refresh_ms"`
	RequestTimeoutMs      *int     `json:"request_timeout_ms"`
	RetryBackoffMs        *int     `json:"retry_backoff_ms"`
	ReconnectBackoffMs    *int     `json:"reconnect_backoff_ms"`
	ReconnectBackoffMaxMs *int     `json:"reconnect_backoff_max_ms"`
}

// ReadSettings reads those of `open_producer` and `open_consumer`.
func ReadSettings(line Line) (Settings, error) {
	op, err := Into[struct {
		Settings Settings `json:"settings"`
	}](line)
	return op.Settings, err
}

// Ms is a number of milliseconds as a duration.
func Ms(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }
