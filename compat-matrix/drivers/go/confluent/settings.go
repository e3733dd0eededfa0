package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"drivers/lines"
)

// serverSide are decided by the server with KIP-848; librdkafka refuses to be told.
var serverSide = []string{"session_timeout_ms", "heartbeat_interval_ms", "assignors"}

// bounded is a context for one call; nothing here waits for ever.
func bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), callMs*time.Millisecond)
}

func common(begin lines.Begin) (kafka.ConfigMap, error) {
	config := kafka.ConfigMap{"bootstrap.servers": begin.Bootstrap, "client.id": begin.ClientID}
	protocol := "PLAINTEXT"
	if begin.TLS != nil {
		config["ssl.ca.location"] = begin.TLS.CAFile
		protocol = "SSL"
	}
	if begin.SASL != nil {
		config["sasl.mechanism"] = begin.SASL.Mechanism
		config["sasl.username"] = begin.SASL.Username
		config["sasl.password"] = begin.SASL.Password
		protocol = "SASL_" + protocol
	}
	config["security.protocol"] = protocol
	return config, nil
}

// configure puts the protocol's settings beside what all clients of the session have.
func configure(begin lines.Begin, line lines.Line) (kafka.ConfigMap, error) {
	config, err := common(begin)
	if err != nil {
		return nil, err
	}
	op, err := lines.Into[struct {
		Settings map[string]any `json:"settings"`
	}](line)
	if err != nil {
		return nil, err
	}
	names := lines.Shared[map[string]json.RawMessage]("librdkafka.json")
	for name, value := range op.Settings {
		if slices.Contains(serverSide, name) && op.Settings["group_protocol"] == "consumer" {
			continue
		}
		own, known := names[name]
		if !known {
			return nil, lines.Unsupported("setting." + name)
		}
		if err := put(config, name, own, value); err != nil {
			return nil, err
		}
	}
	return config, nil
}

func put(config kafka.ConfigMap, name string, own json.RawMessage, value any) error {
	if name == "partitioner" {
		// It keys like Java, and scatters records without a key.
		value = "murmur2_random"
	}
	text := fmt.Sprint(value)
	switch typed := value.(type) {
	case []any:
		text = strings.Trim(strings.ReplaceAll(fmt.Sprint(typed), " ", ","), "[]")
	case float64:
		text = fmt.Sprint(int64(typed))
	}
	var one string
	if json.Unmarshal(own, &one) == nil {
		config[one] = text
		return nil
	}
	// Several names, each with a number to add.
	var several map[string]int64
	if err := json.Unmarshal(own, &several); err != nil {
		return err
	}
	number, _ := value.(float64)
	for each, more := range several {
		config[each] = fmt.Sprint(int64(number) + more)
	}
	return nil
}
