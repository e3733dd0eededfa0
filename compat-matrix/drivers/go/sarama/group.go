package main

import (
	"context"
	"errors"
	"sync"

	"github.com/IBM/sarama"

	"drivers/lines"
)

// membership runs the client's consume loop; the client calls it from goroutines of its own.
type membership struct {
	consumer *consumer
	client   sarama.ConsumerGroup
	cancel   context.CancelFunc
	ended    chan struct{}

	mutex sync.Mutex
	// current is nil while the group rebalances.
	current sarama.ConsumerGroupSession
}

func (c *consumer) subscribe(line lines.Line) (any, error) {
	op, err := lines.Into[struct {
		Topics []string `json:"topics"`
	}](line)
	if err != nil {
		return nil, err
	}
	id, err := c.groupID()
	if err != nil {
		return nil, err
	}
	c.stop()
	group, err := sarama.NewConsumerGroupFromClient(id, c.client)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.group = &membership{consumer: c, client: group, cancel: cancel, ended: make(chan struct{})}
	go c.group.run(ctx, op.Topics)
	go func() {
		for failure := range group.Errors() {
			c.events.Note(lines.Event{Event: "error", Message: failure.Error()})
		}
	}()
	return lines.Nothing, nil
}

// run joins again after each rebalance, as the client's documentation wants it.
func (m *membership) run(ctx context.Context, topics []string) {
	defer close(m.ended)
	for ctx.Err() == nil {
		err := m.client.Consume(ctx, topics, m)
		if errors.Is(err, sarama.ErrClosedConsumerGroup) {
			return
		}
		if err != nil {
			m.consumer.events.Failed(client, err)
		}
	}
}

// Setup begins a generation.
func (m *membership) Setup(session sarama.ConsumerGroupSession) error {
	m.change(session, session, "assigned")
	return nil
}

// Cleanup ends a generation.
func (m *membership) Cleanup(session sarama.ConsumerGroupSession) error {
	m.change(session, nil, "revoked")
	return nil
}

func (m *membership) change(of, current sarama.ConsumerGroupSession, what string) {
	m.mutex.Lock()
	m.current = current
	m.mutex.Unlock()
	var places []lines.Place
	m.consumer.mutex.Lock()
	for topic, partitions := range of.Claims() {
		for _, partition := range partitions {
			places = append(places, lines.Place{Topic: topic, Partition: partition, Offset: -1})
			if what == "assigned" {
				m.consumer.positions[spot{topic, partition}] = -1
			} else {
				delete(m.consumer.positions, spot{topic, partition})
			}
		}
	}
	m.consumer.mutex.Unlock()
	m.consumer.events.Note(lines.Event{Event: what, Partitions: places})
}

// ConsumeClaim offers the records of one partition.
func (m *membership) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		if !m.consumer.deliver(offered{message, session}, session.Context().Done()) {
			return nil
		}
	}
	return nil
}

func (m *membership) session() (sarama.ConsumerGroupSession, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.current == nil {
		return nil, sarama.ErrRebalanceInProgress
	}
	return m.current, nil
}

func (m *membership) close() {
	m.cancel()
	// What it says in closing, nobody can act on.
	_ = m.client.Close()
	<-m.ended
}

func (c *consumer) commit(line lines.Line) (any, error) {
	op, err := lines.Into[struct {
		Offsets      []lines.Place `json:"offsets"`
		Asynchronous bool          `json:"asynchronous"`
	}](line)
	if err != nil {
		return nil, err
	}
	commit := func() error { return c.commitOutside(op.Offsets) }
	if c.group != nil {
		commit = func() error { return c.commitInside(op.Offsets) }
	}
	if op.Asynchronous {
		go func() { c.events.Committed(commit()) }()
		return lines.Nothing, nil
	}
	return lines.Nothing, commit()
}

// commitInside commits as a member. The client tells failures on its channel of errors.
func (c *consumer) commitInside(places []lines.Place) error {
	session, err := c.group.session()
	if err != nil {
		return err
	}
	for _, place := range places {
		// The first only goes forward and the second only back.
		session.MarkOffset(place.Topic, place.Partition, place.Offset, place.Metadata)
		session.ResetOffset(place.Topic, place.Partition, place.Offset, place.Metadata)
	}
	session.Commit()
	return nil
}

// commitOutside commits without being a member.
func (c *consumer) commitOutside(places []lines.Place) error {
	id, err := c.groupID()
	if err != nil {
		return err
	}
	manager, err := sarama.NewOffsetManagerFromClient(id, c.client)
	if err != nil {
		return err
	}
	if places == nil {
		c.mutex.Lock()
		for at, offset := range c.positions {
			if offset >= 0 {
				places = append(places, lines.Place{Topic: at.topic, Partition: at.partition, Offset: offset})
			}
		}
		c.mutex.Unlock()
	}
	var failed error
	var managed []sarama.PartitionOffsetManager
	for _, place := range places {
		partition, err := manager.ManagePartition(place.Topic, place.Partition)
		if err != nil {
			return err
		}
		partition.MarkOffset(place.Offset, place.Metadata)
		partition.ResetOffset(place.Offset, place.Metadata)
		managed = append(managed, partition)
	}
	manager.Commit()
	// Each is let go with the next automatic commit, so all are asked before one is waited for.
	for _, partition := range managed {
		partition.AsyncClose()
	}
	for _, partition := range managed {
		// Closing tells what went wrong.
		failed = errors.Join(failed, partition.Close())
	}
	return errors.Join(failed, manager.Close())
}

func (c *consumer) committed(line lines.Line) (any, error) {
	places, err := readPlaces(line)
	if err != nil {
		return nil, err
	}
	id, err := c.groupID()
	if err != nil {
		return nil, err
	}
	// Closing it would close the client, which is the consumer's.
	admin, err := sarama.NewClusterAdminFromClient(c.client)
	if err != nil {
		return nil, err
	}
	asked := map[string][]int32{}
	for _, place := range places {
		asked[place.Topic] = append(asked[place.Topic], place.Partition)
	}
	found, err := admin.ListConsumerGroupOffsets(id, asked)
	if err != nil {
		return nil, err
	}
	for i, place := range places {
		places[i].Offset, places[i].Metadata = -1, ""
		if at := found.GetBlock(place.Topic, place.Partition); at != nil {
			if at.Err != sarama.ErrNoError {
				return nil, at.Err
			}
			places[i].Offset, places[i].Metadata = at.Offset, at.Metadata
		}
	}
	return lines.Sorted(places), nil
}
