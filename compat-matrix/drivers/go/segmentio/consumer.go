package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"drivers/lines"
)

const slice = 50 * time.Millisecond

type spot struct {
	topic     string
	partition int32
}

// consumer is one reader of a group, or one for each assigned partition. Each is read by a goroutine
// that offers records to polls.
type consumer struct {
	session  *session
	settings lines.Settings
	config   kafka.ReaderConfig
	records  chan kafka.Message
	events   lines.Events
	group    *reader
	readers  map[spot]*reader

	mutex     sync.Mutex
	positions map[spot]int64
	last      map[spot]kafka.Message
}

type reader struct {
	*kafka.Reader
	cancel context.CancelFunc
	ended  chan struct{}
}

var consuming = map[string]func(*consumer, lines.Line) (any, error){
	"subscribe":         (*consumer).subscribe,
	"unsubscribe":       (*consumer).unsubscribe,
	"assign":            (*consumer).assign,
	"poll":              (*consumer).poll,
	"commit":            (*consumer).commit,
	"committed":         (*consumer).committed,
	"position":          (*consumer).position,
	"seek":              (*consumer).seek,
	"offsets_for_times": (*consumer).offsetsForTimes,
	"watermarks":        (*consumer).watermarks,
}

func (s *session) openConsumer(line lines.Line) error {
	settings, err := lines.ReadSettings(line)
	if err != nil {
		return err
	}
	config := kafka.ReaderConfig{
		Brokers: s.addresses, Dialer: s.dialer, StartOffset: kafka.LastOffset,
		// A reader closes only after the fetch that it waits for; its own ten seconds are too long.
		MaxWait: 500 * time.Millisecond,
	}
	if word := settings.OffsetReset; word != nil {
		switch *word {
		case "earliest":
			config.StartOffset = kafka.FirstOffset
		case "error":
			config.OffsetOutOfRangeError = true
		}
	}
	if word := settings.Isolation; word != nil && *word == "read_committed" {
		config.IsolationLevel = kafka.ReadCommitted
	}
	if ms := settings.FetchMaxWaitMs; ms != nil {
		config.MaxWait = lines.Ms(*ms)
	}
	if bytes := settings.FetchMaxBytes; bytes != nil {
		config.MaxBytes = int(*bytes)
	}
	if ms := settings.RetryBackoffMs; ms != nil {
		config.ReadBackoffMin, config.ReadBackoffMax = lines.Ms(*ms), lines.Ms(*ms)
	}
	s.consumer = &consumer{
		session: s, settings: settings, config: config,
		records:   make(chan kafka.Message),
		readers:   map[spot]*reader{},
		positions: map[spot]int64{},
		last:      map[spot]kafka.Message{},
	}
	return nil
}

// member puts what only members of a group have into a configuration.
func (c *consumer) member(config *kafka.ReaderConfig) error {
	settings := c.settings
	if settings.GroupID == nil {
		return errors.New("a subscription needs a group")
	}
	config.GroupID = *settings.GroupID
	config.WatchPartitionChanges = settings.MetadataRefreshMs != nil
	if ms := settings.MetadataRefreshMs; ms != nil {
		config.PartitionWatchInterval = lines.Ms(*ms)
	}
	if ms := settings.SessionTimeoutMs; ms != nil {
		config.SessionTimeout = lines.Ms(*ms)
	}
	if ms := settings.HeartbeatIntervalMs; ms != nil {
		config.HeartbeatInterval = lines.Ms(*ms)
	}
	if ms := settings.MaxPollIntervalMs; ms != nil {
		config.RebalanceTimeout = lines.Ms(*ms)
	}
	if ms := settings.AutoCommitIntervalMs; ms != nil && c.commitsItself() {
		config.CommitInterval = lines.Ms(*ms)
	}
	for _, word := range settings.Assignors {
		if word == "range" {
			config.GroupBalancers = append(config.GroupBalancers, kafka.RangeGroupBalancer{})
		} else {
			config.GroupBalancers = append(config.GroupBalancers, kafka.RoundRobinGroupBalancer{})
		}
	}
	return nil
}

func (c *consumer) commitsItself() bool {
	return c.settings.AutoCommit == nil || *c.settings.AutoCommit
}

func (c *consumer) subscribe(line lines.Line) (any, error) {
	op, err := lines.Into[struct {
		Topics []string `json:"topics"`
	}](line)
	if err != nil {
		return nil, err
	}
	c.stop()
	config := c.config
	if err := c.member(&config); err != nil {
		return nil, err
	}
	config.GroupTopics = op.Topics
	if err := config.Validate(); err != nil {
		return nil, err
	}
	c.group = c.start(kafka.NewReader(config))
	return lines.Nothing, nil
}

// start reads until the reader is stopped.
func (c *consumer) start(from *kafka.Reader) *reader {
	ctx, cancel := context.WithCancel(context.Background())
	one := &reader{from, cancel, make(chan struct{})}
	go func() {
		defer close(one.ended)
		for ctx.Err() == nil {
			message, err := one.FetchMessage(ctx)
			if err != nil {
				if ctx.Err() == nil {
					c.events.Failed(client, err)
					time.Sleep(slice)
				}
				continue
			}
			select {
			case c.records <- message:
			case <-ctx.Done():
			}
		}
	}()
	return one
}

func (r *reader) stop() {
	r.cancel()
	// It leaves its group here; what it says in closing, nobody can act on.
	_ = r.Close()
	<-r.ended
}

func readPlaces(line lines.Line) ([]lines.Place, error) {
	op, err := lines.Into[struct {
		Partitions []lines.Place `json:"partitions"`
	}](line)
	return op.Partitions, err
}

func (c *consumer) assign(line lines.Line) (any, error) {
	places, err := readPlaces(line)
	if err != nil {
		return nil, err
	}
	c.stop()
	for _, place := range places {
		if err := c.read(place); err != nil {
			return nil, err
		}
	}
	return lines.Nothing, nil
}

// read starts at a place; −2 and −1 are the client's own words for the beginning and the end.
func (c *consumer) read(place lines.Place) error {
	config := c.config
	config.Topic, config.Partition = place.Topic, int(place.Partition)
	// Only members of a group start elsewhere.
	config.StartOffset = 0
	if err := config.Validate(); err != nil {
		return err
	}
	from := kafka.NewReader(config)
	if err := from.SetOffset(place.Offset); err != nil {
		return errors.Join(err, from.Close())
	}
	at := spot{place.Topic, place.Partition}
	c.readers[at] = c.start(from)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.positions[at] = max(place.Offset, -1)
	return nil
}

func (c *consumer) seek(line lines.Line) (any, error) {
	op, err := lines.Into[struct {
		Partition lines.Place `json:"partition"`
	}](line)
	if err != nil {
		return nil, err
	}
	if c.group != nil {
		return nil, lines.Unsupported("a member of a group cannot seek")
	}
	at := spot{op.Partition.Topic, op.Partition.Partition}
	old, held := c.readers[at]
	if !held {
		return nil, errors.New("the partition is not assigned")
	}
	// A record that it has offered already would come after the seek.
	old.stop()
	return lines.Nothing, c.read(op.Partition)
}

func (c *consumer) poll(line lines.Line) (any, error) {
	op, err := lines.Into[struct {
		Max    int `json:"max"`
		IdleMs int `json:"idle_ms"`
	}](line)
	if err != nil {
		return nil, err
	}
	idle := lines.Ms(op.IdleMs)
	records := []lines.Incoming{}
	for quiet := time.Now(); len(records) < op.Max && time.Since(quiet) < idle; {
		select {
		case message := <-c.records:
			c.take(message)
			records = append(records, incoming(message))
			quiet = time.Now()
		case <-time.After(min(slice, idle)):
		}
	}
	return lines.Polled{Records: records, Events: c.events.Take()}, nil
}

// take moves the position, and commits where the consumer does so by itself, as ReadMessage does.
func (c *consumer) take(message kafka.Message) {
	at := spot{message.Topic, int32(message.Partition)}
	c.mutex.Lock()
	c.positions[at] = message.Offset + 1
	c.last[at] = message
	c.mutex.Unlock()
	if c.group != nil && c.commitsItself() {
		ctx, cancel := bounded()
		defer cancel()
		if err := c.group.CommitMessages(ctx, message); err != nil {
			c.events.Failed(client, err)
		}
	}
}

func incoming(message kafka.Message) lines.Incoming {
	at := message.Time.UnixMilli()
	in := lines.Incoming{
		Topic: message.Topic, Partition: int32(message.Partition), Offset: message.Offset,
		Key: message.Key, Value: message.Value, Headers: []lines.Header{}, TimestampMs: &at,
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
	if c.group == nil {
		return nil, lines.Unsupported("a reader outside of a group does not commit")
	}
	var messages []kafka.Message
	if op.Offsets == nil {
		c.mutex.Lock()
		for _, message := range c.last {
			messages = append(messages, message)
		}
		c.mutex.Unlock()
	}
	for _, place := range op.Offsets {
		// The client commits the record after the one it is given.
		messages = append(messages, kafka.Message{
			Topic: place.Topic, Partition: int(place.Partition), Offset: place.Offset - 1,
		})
	}
	group := c.group
	commit := func() error {
		ctx, cancel := bounded()
		defer cancel()
		return group.CommitMessages(ctx, messages...)
	}
	if op.Asynchronous {
		go func() { c.events.Committed(commit()) }()
		return lines.Nothing, nil
	}
	return lines.Nothing, commit()
}

func (c *consumer) committed(line lines.Line) (any, error) {
	places, err := readPlaces(line)
	if err != nil {
		return nil, err
	}
	if c.settings.GroupID == nil {
		return nil, errors.New("the consumer has no group")
	}
	ctx, cancel := bounded()
	defer cancel()
	return fetchOffsets(ctx, c.session.client, *c.settings.GroupID, places)
}

func (c *consumer) position(lines.Line) (any, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	var places []lines.Place
	for at, offset := range c.positions {
		places = append(places, lines.Place{Topic: at.topic, Partition: at.partition, Offset: offset})
	}
	return lines.Sorted(places), nil
}

func (c *consumer) offsetsForTimes(line lines.Line) (any, error) {
	places, err := readPlaces(line)
	if err != nil {
		return nil, err
	}
	ctx, cancel := bounded()
	defer cancel()
	for i, place := range places {
		at := time.UnixMilli(place.Offset)
		found, err := listed(ctx, c.session.client, place, kafka.TimeOffsetOf(int(place.Partition), at))
		if err != nil {
			return nil, err
		}
		places[i].Offset = -1
		for offset := range found.Offsets {
			places[i].Offset = offset
		}
	}
	return lines.Sorted(places), nil
}

func (c *consumer) watermarks(line lines.Line) (any, error) {
	op, err := lines.Into[lines.Place](line)
	if err != nil {
		return nil, err
	}
	ctx, cancel := bounded()
	defer cancel()
	number := int(op.Partition)
	found, err := listed(ctx, c.session.client, op, kafka.FirstOffsetOf(number), kafka.LastOffsetOf(number))
	if err != nil {
		return nil, err
	}
	return map[string]int64{"low": found.FirstOffset, "high": found.LastOffset}, nil
}

func listed(
	ctx context.Context, client *kafka.Client, of lines.Place, asked ...kafka.OffsetRequest,
) (kafka.PartitionOffsets, error) {
	answer, err := client.ListOffsets(ctx, &kafka.ListOffsetsRequest{
		Topics: map[string][]kafka.OffsetRequest{of.Topic: asked},
	})
	if err != nil {
		return kafka.PartitionOffsets{}, err
	}
	for _, found := range answer.Topics[of.Topic] {
		return found, found.Error
	}
	return kafka.PartitionOffsets{}, kafka.UnknownTopicOrPartition
}

func (c *consumer) unsubscribe(lines.Line) (any, error) {
	c.stop()
	return lines.Nothing, nil
}

func (c *consumer) stop() {
	if c.group != nil {
		c.group.stop()
	}
	c.group = nil
	for _, each := range c.readers {
		each.stop()
	}
	clear(c.readers)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	clear(c.positions)
	clear(c.last)
}
