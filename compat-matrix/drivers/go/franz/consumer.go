package main

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"drivers/lines"
)

const (
	slice     = 50 * time.Millisecond
	beginning = -2
	endOf     = -1
)

type spot struct {
	topic     string
	partition int32
}

// consumer is a client that is made when it is known what to consume, and an admin client for the rest.
type consumer struct {
	settings lines.Settings
	common   []kgo.Opt
	admin    *kadm.Client
	client   *kgo.Client
	member   bool
	events   lines.Events

	mutex     sync.Mutex
	positions map[spot]int64
}

var consuming = map[string]func(*consumer, lines.Line) (any, error){
	"subscribe":         (*consumer).subscribe,
	"unsubscribe":       (*consumer).unsubscribe,
	"assign":            (*consumer).assign,
	"poll":              (*consumer).poll,
	"commit":            (*consumer).commit,
	"committed":         (*consumer).committed,
	"position":          (*consumer).position,
	"assignment":        (*consumer).position,
	"pause":             (*consumer).pause,
	"resume":            (*consumer).resume,
	"seek":              (*consumer).seek,
	"offsets_for_times": (*consumer).offsetsForTimes,
	"watermarks":        (*consumer).watermarks,
}

func (s *session) openConsumer(line lines.Line) error {
	settings, err := lines.ReadSettings(line)
	if err != nil {
		return err
	}
	plain, err := kgo.NewClient(s.common...)
	if err != nil {
		return err
	}
	s.consumer = &consumer{
		settings:  settings,
		common:    s.common,
		admin:     kadm.NewClient(plain),
		positions: map[spot]int64{},
	}
	return nil
}

// start makes the client, in place of one that consumed something else.
func (c *consumer) start(more ...kgo.Opt) error {
	c.stop()
	opts, err := consumerOpts(c.settings)
	if err != nil {
		return err
	}
	c.client, err = kgo.NewClient(append(append(opts, c.common...), more...)...)
	return err
}

func (c *consumer) stop() {
	if c.client != nil {
		c.client.Close()
	}
	c.client = nil
	c.mutex.Lock()
	defer c.mutex.Unlock()
	clear(c.positions)
}

func (c *consumer) subscribe(line lines.Line) (any, error) {
	op, err := lines.Into[struct {
		Topics []string `json:"topics"`
	}](line)
	if err != nil {
		return nil, err
	}
	opts, err := memberOpts(c.settings)
	if err != nil {
		return nil, err
	}
	for _, topic := range op.Topics {
		if strings.HasPrefix(topic, "^") {
			opts = append(opts, kgo.ConsumeRegex())
			break
		}
	}
	c.member = true
	return lines.Nothing, c.start(append(opts,
		kgo.ConsumeTopics(op.Topics...),
		kgo.OnPartitionsAssigned(c.note("assigned")),
		kgo.OnPartitionsRevoked(c.note("revoked")),
		kgo.OnPartitionsLost(c.note("revoked")),
	)...)
}

// note is a callback; the client calls it from a goroutine of its own.
func (c *consumer) note(what string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
		var places []lines.Place
		c.mutex.Lock()
		for topic, partitions := range changed {
			for _, partition := range partitions {
				places = append(places, lines.Place{Topic: topic, Partition: partition, Offset: -1})
				if what == "assigned" {
					c.positions[spot{topic, partition}] = -1
				} else {
					delete(c.positions, spot{topic, partition})
				}
			}
		}
		c.mutex.Unlock()
		c.events.Note(lines.Event{Event: what, Partitions: places})
	}
}

func (c *consumer) unsubscribe(lines.Line) (any, error) {
	c.stop()
	return lines.Nothing, nil
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
	offsets := map[string]map[int32]kgo.Offset{}
	for _, place := range places {
		offset := kgo.NewOffset().At(place.Offset)
		switch place.Offset {
		case beginning:
			offset = kgo.NewOffset().AtStart()
		case endOf:
			offset = kgo.NewOffset().AtEnd()
		}
		if offsets[place.Topic] == nil {
			offsets[place.Topic] = map[int32]kgo.Offset{}
		}
		offsets[place.Topic][place.Partition] = offset
	}
	c.member = false
	if err := c.start(kgo.ConsumePartitions(offsets)); err != nil {
		return nil, err
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, place := range places {
		c.positions[spot{place.Topic, place.Partition}] = max(place.Offset, -1)
	}
	return lines.Nothing, nil
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
		if c.client == nil {
			time.Sleep(min(slice, idle))
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), min(slice, idle))
		fetches := c.client.PollRecords(ctx, op.Max-len(records))
		cancel()
		fetches.EachError(func(topic string, partition int32, err error) {
			if !errors.Is(err, context.DeadlineExceeded) {
				c.events.Failed(client, err)
			}
		})
		fetches.EachRecord(func(record *kgo.Record) {
			records = append(records, incoming(record))
			quiet = time.Now()
		})
	}
	c.mutex.Lock()
	for _, record := range records {
		at := spot{record.Topic, record.Partition}
		// A record of a partition that was taken meanwhile moves nothing.
		if _, held := c.positions[at]; held {
			c.positions[at] = record.Offset + 1
		}
	}
	c.mutex.Unlock()
	return lines.Polled{Records: records, Events: c.events.Take()}, nil
}

func incoming(record *kgo.Record) lines.Incoming {
	at := record.Timestamp.UnixMilli()
	in := lines.Incoming{
		Topic: record.Topic, Partition: record.Partition, Offset: record.Offset,
		Key: record.Key, Value: record.Value, Headers: []lines.Header{}, TimestampMs: &at,
	}
	for _, header := range record.Headers {
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
		ctx, cancel := bounded()
		defer cancel()
		return c.commitOffsets(ctx, op.Offsets)
	}
	if op.Asynchronous {
		go func() { c.events.Committed(commit()) }()
		return lines.Nothing, nil
	}
	return lines.Nothing, commit()
}

func (c *consumer) commitOffsets(ctx context.Context, places []lines.Place) error {
	if !c.member || c.client == nil {
		return c.admin.CommitAllOffsets(ctx, *c.settings.GroupID, c.outside(places))
	}
	if places == nil {
		return c.client.CommitUncommittedOffsets(ctx)
	}
	offsets := map[string]map[int32]kgo.EpochOffset{}
	metadata := map[spot]string{}
	for _, place := range places {
		if offsets[place.Topic] == nil {
			offsets[place.Topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[place.Topic][place.Partition] = kgo.EpochOffset{Epoch: -1, Offset: place.Offset}
		metadata[spot{place.Topic, place.Partition}] = place.Metadata
	}
	ctx = kgo.PreCommitFnContext(ctx, func(request *kmsg.OffsetCommitRequest) error {
		for t := range request.Topics {
			for p := range request.Topics[t].Partitions {
				partition := &request.Topics[t].Partitions[p]
				text := metadata[spot{request.Topics[t].Topic, partition.Partition}]
				partition.Metadata = &text
			}
		}
		return nil
	})
	var failed error
	c.client.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
		failed = err
		if answer == nil {
			return
		}
		for _, topic := range answer.Topics {
			for _, partition := range topic.Partitions {
				if failed == nil && partition.ErrorCode != 0 {
					failed = kafkaError(partition.ErrorCode)
				}
			}
		}
	})
	return failed
}

// outside are the offsets of a consumer that is no member: given ones, or what was polled.
func (c *consumer) outside(places []lines.Place) kadm.Offsets {
	offsets := kadm.Offsets{}
	if places == nil {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		for at, position := range maps.All(c.positions) {
			if position >= 0 {
				offsets.AddOffset(at.topic, at.partition, position, -1)
			}
		}
		return offsets
	}
	return adminOffsets(places)
}

func (c *consumer) committed(line lines.Line) (any, error) {
	places, err := readPlaces(line)
	if err != nil {
		return nil, err
	}
	ctx, cancel := bounded()
	defer cancel()
	found, err := c.admin.FetchOffsets(ctx, *c.settings.GroupID)
	if err != nil {
		return nil, err
	}
	for i := range places {
		places[i].Offset, places[i].Metadata = -1, ""
		if at, ok := found.Lookup(places[i].Topic, places[i].Partition); ok {
			if at.Err != nil {
				return nil, at.Err
			}
			places[i].Offset, places[i].Metadata = at.At, at.Metadata
		}
	}
	return lines.Sorted(places), nil
}

func (c *consumer) position(lines.Line) (any, error) {
	var places []lines.Place
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for at, offset := range c.positions {
		places = append(places, lines.Place{Topic: at.topic, Partition: at.partition, Offset: offset})
	}
	return lines.Sorted(places), nil
}

func (c *consumer) running() error {
	if c.client == nil {
		return errors.New("the consumer has neither a subscription nor an assignment")
	}
	return nil
}

func (c *consumer) pause(line lines.Line) (any, error) {
	places, err := readPlaces(line)
	if err := errors.Join(err, c.running()); err != nil {
		return nil, err
	}
	c.client.PauseFetchPartitions(byTopic(places))
	return lines.Nothing, nil
}

func (c *consumer) resume(line lines.Line) (any, error) {
	places, err := readPlaces(line)
	if err := errors.Join(err, c.running()); err != nil {
		return nil, err
	}
	c.client.ResumeFetchPartitions(byTopic(places))
	return lines.Nothing, nil
}

func byTopic(places []lines.Place) map[string][]int32 {
	found := map[string][]int32{}
	for _, place := range places {
		found[place.Topic] = append(found[place.Topic], place.Partition)
	}
	return found
}

func (c *consumer) seek(line lines.Line) (any, error) {
	op, err := lines.Into[struct {
		Partition lines.Place `json:"partition"`
	}](line)
	if err := errors.Join(err, c.running()); err != nil {
		return nil, err
	}
	place := op.Partition
	if place.Offset < 0 {
		ctx, cancel := bounded()
		defer cancel()
		if place.Offset, err = offsetAt(ctx, c.admin, place); err != nil {
			return nil, err
		}
	}
	c.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{
		place.Topic: {place.Partition: {Epoch: -1, Offset: place.Offset}},
	})
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.positions[spot{place.Topic, place.Partition}] = place.Offset
	return lines.Nothing, nil
}

func (c *consumer) offsetsForTimes(line lines.Line) (any, error) {
	places, err := readPlaces(line)
	if err != nil {
		return nil, err
	}
	ctx, cancel := bounded()
	defer cancel()
	for i, place := range places {
		// A listing answers the end where no record is that young; its time tells the two apart.
		listed, err := c.admin.ListOffsetsAfterMilli(ctx, place.Offset, place.Topic)
		if err != nil {
			return nil, err
		}
		at, _ := listed.Lookup(place.Topic, place.Partition)
		if at.Err != nil {
			return nil, at.Err
		}
		places[i].Offset = at.Offset
		if at.Timestamp < 0 {
			places[i].Offset = -1
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
	op.Offset = beginning
	low, err := offsetAt(ctx, c.admin, op)
	if err != nil {
		return nil, err
	}
	op.Offset = endOf
	high, err := offsetAt(ctx, c.admin, op)
	return map[string]int64{"low": low, "high": high}, err
}

func (c *consumer) close() {
	c.stop()
	c.admin.Close()
}
