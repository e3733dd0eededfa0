package main

import (
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"drivers/lines"
)

const sliceMs = 50

type consumer struct {
	client *kafka.Consumer
	events lines.Events
}

var consuming = map[string]func(*consumer, lines.Line) (any, error){
	"subscribe":         (*consumer).subscribe,
	"unsubscribe":       (*consumer).unsubscribe,
	"assign":            (*consumer).assign,
	"poll":              (*consumer).poll,
	"commit":            (*consumer).commit,
	"committed":         (*consumer).committed,
	"position":          (*consumer).position,
	"assignment":        (*consumer).assignment,
	"pause":             (*consumer).pause,
	"resume":            (*consumer).resume,
	"seek":              (*consumer).seek,
	"offsets_for_times": (*consumer).offsetsForTimes,
	"watermarks":        (*consumer).watermarks,
}

func (s *session) openConsumer(line lines.Line) error {
	config, err := configure(s.begin, line)
	if err != nil {
		return err
	}
	client, err := kafka.NewConsumer(&config)
	if err == nil {
		s.consumer = &consumer{client: client}
	}
	return err
}

func partitions(places []lines.Place) []kafka.TopicPartition {
	var found []kafka.TopicPartition
	for _, place := range places {
		found = append(found, kafka.TopicPartition{
			Topic: &place.Topic, Partition: place.Partition,
			Offset: kafka.Offset(place.Offset), Metadata: &place.Metadata,
		})
	}
	return found
}

func readPartitions(line lines.Line) ([]kafka.TopicPartition, error) {
	op, err := lines.Into[struct {
		Partitions []lines.Place `json:"partitions"`
	}](line)
	return partitions(op.Partitions), err
}

// answered are places, or the first error among them.
func answered(found []kafka.TopicPartition, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	var places []lines.Place
	for _, each := range found {
		if each.Error != nil {
			return nil, each.Error
		}
		place := lines.Place{Topic: *each.Topic, Partition: each.Partition, Offset: int64(each.Offset)}
		if each.Offset == kafka.OffsetInvalid {
			place.Offset = -1
		}
		if each.Metadata != nil {
			place.Metadata = *each.Metadata
		}
		places = append(places, place)
	}
	return lines.Sorted(places), nil
}

func (c *consumer) subscribe(line lines.Line) (any, error) {
	op, err := lines.Into[struct {
		Topics []string `json:"topics"`
	}](line)
	if err != nil {
		return nil, err
	}
	return lines.Nothing, c.client.SubscribeTopics(op.Topics, c.rebalanced)
}

// rebalanced is called in polling.
func (c *consumer) rebalanced(_ *kafka.Consumer, event kafka.Event) error {
	note := func(what string, changed []kafka.TopicPartition) {
		var places []lines.Place
		for _, each := range changed {
			places = append(places, lines.Place{Topic: *each.Topic, Partition: each.Partition, Offset: -1})
		}
		c.events.Note(lines.Event{Event: what, Partitions: places})
	}
	switch typed := event.(type) {
	case kafka.AssignedPartitions:
		note("assigned", typed.Partitions)
	case kafka.RevokedPartitions:
		note("revoked", typed.Partitions)
	}
	return nil
}

func (c *consumer) unsubscribe(lines.Line) (any, error) {
	return lines.Nothing, c.client.Unsubscribe()
}

func (c *consumer) assign(line lines.Line) (any, error) {
	wanted, err := readPartitions(line)
	if err != nil {
		return nil, err
	}
	return lines.Nothing, c.client.Assign(wanted)
}

func (c *consumer) poll(line lines.Line) (any, error) {
	op, err := lines.Into[struct {
		Max    int `json:"max"`
		IdleMs int `json:"idle_ms"`
	}](line)
	if err != nil {
		return nil, err
	}
	records := []lines.Incoming{}
	idle := lines.Ms(op.IdleMs)
	for quiet := time.Now(); len(records) < op.Max && time.Since(quiet) < idle; {
		switch event := c.client.Poll(min(sliceMs, op.IdleMs)).(type) {
		case *kafka.Message:
			if err := event.TopicPartition.Error; err != nil {
				c.events.Failed(client, err)
				continue
			}
			records = append(records, incoming(event))
			quiet = time.Now()
		case kafka.Error:
			c.events.Note(lines.Event{Event: "error", Message: event.Error()})
		}
	}
	return lines.Polled{Records: records, Events: c.events.Take()}, nil
}

func incoming(message *kafka.Message) lines.Incoming {
	at := message.Timestamp.UnixMilli()
	in := lines.Incoming{
		Topic:     *message.TopicPartition.Topic,
		Partition: message.TopicPartition.Partition,
		Offset:    int64(message.TopicPartition.Offset),
		Key:       message.Key, Value: message.Value, Headers: []lines.Header{}, TimestampMs: &at,
	}
	for _, header := range message.Headers {
		in.Headers = append(in.Headers, lines.Header{Key: header.Key, Value: header.Value})
	}
	return in
}

func (c *consumer) commit(line lines.Line) (any, error) {
	op, err := lines.Into[struct {
		Offsets      []lines.Place `json:"offsets"`
		Asynchronous bool          `json:"asynchronous"`
	}](line)
	if err != nil {
		return nil, err
	}
	commit := func() error {
		commit := c.client.Commit
		if op.Offsets != nil {
			commit = func() ([]kafka.TopicPartition, error) {
				return c.client.CommitOffsets(partitions(op.Offsets))
			}
		}
		_, err := answered(commit())
		return err
	}
	if op.Asynchronous {
		// The binding has no other way of not waiting.
		go func() { c.events.Committed(commit()) }()
		return lines.Nothing, nil
	}
	return lines.Nothing, commit()
}

func (c *consumer) committed(line lines.Line) (any, error) {
	wanted, err := readPartitions(line)
	if err != nil {
		return nil, err
	}
	return answered(c.client.Committed(wanted, callMs))
}

func (c *consumer) position(lines.Line) (any, error) {
	held, err := c.client.Assignment()
	if err != nil {
		return nil, err
	}
	return answered(c.client.Position(held))
}

func (c *consumer) assignment(lines.Line) (any, error) {
	return answered(c.client.Assignment())
}

func (c *consumer) pause(line lines.Line) (any, error) {
	wanted, err := readPartitions(line)
	if err != nil {
		return nil, err
	}
	return lines.Nothing, c.client.Pause(wanted)
}

func (c *consumer) resume(line lines.Line) (any, error) {
	wanted, err := readPartitions(line)
	if err != nil {
		return nil, err
	}
	return lines.Nothing, c.client.Resume(wanted)
}

func (c *consumer) seek(line lines.Line) (any, error) {
	op, err := lines.Into[struct {
		Partition lines.Place `json:"partition"`
	}](line)
	if err != nil {
		return nil, err
	}
	return lines.Nothing, c.client.Seek(partitions([]lines.Place{op.Partition})[0], callMs)
}

func (c *consumer) offsetsForTimes(line lines.Line) (any, error) {
	wanted, err := readPartitions(line)
	if err != nil {
		return nil, err
	}
	return answered(c.client.OffsetsForTimes(wanted, callMs))
}

func (c *consumer) watermarks(line lines.Line) (any, error) {
	op, err := lines.Into[lines.Place](line)
	if err != nil {
		return nil, err
	}
	low, high, err := c.client.QueryWatermarkOffsets(op.Topic, op.Partition, callMs)
	return map[string]int64{"low": low, "high": high}, err
}
