package main

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"drivers/lines"
)

const (
	slice     = 50 * time.Millisecond
	beginning = -2
)

type spot struct {
	topic     string
	partition int32
}

// offered is a record that waits until a poll takes it.
type offered struct {
	message *sarama.ConsumerMessage
	// member is nil without a group.
	member sarama.ConsumerGroupSession
}

type consumer struct {
	settings lines.Settings
	client   sarama.Client
	records  chan offered
	// held came while its partition was paused; it was offered before.
	held   []offered
	events lines.Events
	// group or readers, never both.
	group   *membership
	readers map[spot]*reader
	reading sarama.Consumer

	mutex     sync.Mutex
	positions map[spot]int64
	paused    map[spot]bool
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
	config, err := common(s.begin)
	if err != nil {
		return err
	}
	if err := configureConsumer(config, settings); err != nil {
		return err
	}
	client, err := sarama.NewClient(s.brokers(), config)
	if err != nil {
		return err
	}
	s.consumer = &consumer{
		settings:  settings,
		client:    client,
		records:   make(chan offered),
		readers:   map[spot]*reader{},
		positions: map[spot]int64{},
		paused:    map[spot]bool{},
	}
	return nil
}

func readPlaces(line lines.Line) ([]lines.Place, error) {
	op, err := lines.Into[struct {
		Partitions []lines.Place `json:"partitions"`
	}](line)
	return op.Partitions, err
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
		each, ok := c.next(min(slice, idle))
		if !ok {
			continue
		}
		message := each.message
		c.mutex.Lock()
		c.positions[spot{message.Topic, message.Partition}] = message.Offset + 1
		c.mutex.Unlock()
		if each.member != nil {
			each.member.MarkMessage(message, "")
		}
		records = append(records, incoming(message))
		quiet = time.Now()
	}
	return lines.Polled{Records: records, Events: c.events.Take()}, nil
}

// next is a record of a partition that is not paused.
func (c *consumer) next(within time.Duration) (offered, bool) {
	paused := func(each offered) bool {
		return c.isPaused(spot{each.message.Topic, each.message.Partition})
	}
	for i, each := range c.held {
		if !paused(each) {
			c.held = slices.Delete(c.held, i, i+1)
			return each, true
		}
	}
	select {
	case each := <-c.records:
		if !paused(each) {
			return each, true
		}
		c.held = append(c.held, each)
	case <-time.After(within):
	}
	return offered{}, false
}

func incoming(message *sarama.ConsumerMessage) lines.Incoming {
	at := message.Timestamp.UnixMilli()
	in := lines.Incoming{
		Topic: message.Topic, Partition: message.Partition, Offset: message.Offset,
		Key: message.Key, Value: message.Value, Headers: []lines.Header{}, TimestampMs: &at,
	}
	for _, header := range message.Headers {
		in.Headers = append(in.Headers, lines.Header{Key: string(header.Key), Value: header.Value})
	}
	return in
}

// deliver hands a record to the next poll; false when `done` came first.
func (c *consumer) deliver(each offered, done <-chan struct{}) bool {
	at := spot{each.message.Topic, each.message.Partition}
	for c.isPaused(at) {
		select {
		case <-time.After(slice):
		case <-done:
			return false
		}
	}
	select {
	case c.records <- each:
		return true
	case <-done:
		return false
	}
}

func (c *consumer) isPaused(at spot) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.paused[at]
}

func (c *consumer) setPaused(line lines.Line, to bool) (any, error) {
	places, err := readPlaces(line)
	if err != nil {
		return nil, err
	}
	byTopic := map[string][]int32{}
	c.mutex.Lock()
	for _, place := range places {
		// What is fetched already waits here; the client holds only new fetches.
		c.paused[spot{place.Topic, place.Partition}] = to
		byTopic[place.Topic] = append(byTopic[place.Topic], place.Partition)
	}
	c.mutex.Unlock()
	if c.group != nil && to {
		c.group.client.Pause(byTopic)
	} else if c.group != nil {
		c.group.client.Resume(byTopic)
	}
	return lines.Nothing, nil
}

func (c *consumer) pause(line lines.Line) (any, error)  { return c.setPaused(line, true) }
func (c *consumer) resume(line lines.Line) (any, error) { return c.setPaused(line, false) }

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
	for i, place := range places {
		if places[i].Offset, err = c.client.GetOffset(place.Topic, place.Partition, place.Offset); err != nil {
			return nil, err
		}
	}
	return lines.Sorted(places), nil
}

func (c *consumer) watermarks(line lines.Line) (any, error) {
	op, err := lines.Into[lines.Place](line)
	if err != nil {
		return nil, err
	}
	low, err := c.client.GetOffset(op.Topic, op.Partition, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	high, err := c.client.GetOffset(op.Topic, op.Partition, sarama.OffsetNewest)
	return map[string]int64{"low": low, "high": high}, err
}

func (c *consumer) groupID() (string, error) {
	if c.settings.GroupID == nil {
		return "", errors.New("the consumer has no group")
	}
	return *c.settings.GroupID, nil
}

func (c *consumer) unsubscribe(lines.Line) (any, error) {
	c.stop()
	return lines.Nothing, nil
}

func (c *consumer) stop() {
	if c.group != nil {
		c.group.close()
	}
	c.group = nil
	for _, each := range c.readers {
		each.close()
	}
	clear(c.readers)
	c.held = nil
	c.mutex.Lock()
	defer c.mutex.Unlock()
	clear(c.positions)
	clear(c.paused)
}

func (c *consumer) close() {
	c.stop()
	// What it says in closing, nobody can act on.
	_ = c.client.Close()
}
