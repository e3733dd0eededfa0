package lines

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Place is a topic partition and an offset, or what the operation says it is.
type Place struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Metadata  string `json:"metadata"`
}

// Places is the answer of many operations.
type Places struct {
	Places []Place `json:"places"`
}

// Sorted makes an answer of places.
func Sorted(places []Place) Places {
	slices.SortFunc(places, func(a, b Place) int {
		if order := strings.Compare(a.Topic, b.Topic); order != 0 {
			return order
		}
		return int(a.Partition - b.Partition)
	})
	if places == nil {
		places = []Place{}
	}
	return Places{places}
}

// Header is a name and bytes that may be absent, `[name, bytes]` on the line.
type Header struct {
	Key   string
	Value []byte
}

// MarshalJSON writes the pair.
func (h Header) MarshalJSON() ([]byte, error) { return json.Marshal([]any{h.Key, h.Value}) }

// UnmarshalJSON reads the pair.
func (h *Header) UnmarshalJSON(line []byte) error {
	return json.Unmarshal(line, &[]any{&h.Key, &h.Value})
}

// Outgoing is a record to send.
type Outgoing struct {
	Topic       string   `json:"topic"`
	Partition   *int32   `json:"partition"`
	Key         []byte   `json:"key"`
	Value       []byte   `json:"value"`
	Headers     []Header `json:"headers"`
	TimestampMs *int64   `json:"timestamp_ms"`
}

// Incoming is a record that was read.
type Incoming struct {
	Topic       string   `json:"topic"`
	Partition   int32    `json:"partition"`
	Offset      int64    `json:"offset"`
	Key         []byte   `json:"key"`
	Value       []byte   `json:"value"`
	Headers     []Header `json:"headers"`
	TimestampMs *int64   `json:"timestamp_ms"`
}

// Produce is `produce`, or `produce_numbers` once Records has made them.
type Produce struct {
	Records    []Outgoing `json:"records"`
	Topic      string     `json:"topic"`
	Partition  *int32     `json:"partition"`
	First      uint64     `json:"first"`
	Count      uint64     `json:"count"`
	ValueBytes int        `json:"value_bytes"`
	TimeoutMs  int64      `json:"timeout_ms"`
}

// ReadProduce reads either of the two operations.
func ReadProduce(line Line) (Produce, error) {
	op, err := Into[Produce](line)
	for number := op.First; number < op.First+op.Count; number++ {
		digits := []byte(strconv.FormatUint(number, 10))
		value := slices.Clone(digits)
		for len(value) < op.ValueBytes {
			value = append(value, '.')
		}
		record := Outgoing{Topic: op.Topic, Partition: op.Partition, Value: value}
		if op.Partition == nil {
			record.Key = digits
		}
		op.Records = append(op.Records, record)
	}
	return op, err
}

// Deliveries collects what became of records; reports may come from any goroutine.
type Deliveries struct {
	mutex   sync.Mutex
	places  []*[2]int64
	reasons []string
}

// NewDeliveries awaits a report for each of `count` records.
func NewDeliveries(count int) *Deliveries {
	return &Deliveries{places: make([]*[2]int64, count), reasons: make([]string, count)}
}

// Delivered notes where a record is; offset −1 where nobody tells.
func (d *Deliveries) Delivered(index int, partition int32, offset int64) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.places[index] = &[2]int64{int64(partition), offset}
}

// Failed notes why a record is not delivered.
func (d *Deliveries) Failed(index int, reason string) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.reasons[index] = reason
}

// Answer tells what is known now.
func (d *Deliveries) Answer() any {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	places, failed := [][2]int64{}, [][2]any{}
	for index, place := range d.places {
		switch {
		case place != nil:
			places = append(places, *place)
		case d.reasons[index] != "":
			failed = append(failed, [2]any{index, d.reasons[index]})
		default:
			failed = append(failed, [2]any{index, "no delivery report in time"})
		}
	}
	return map[string]any{"places": places, "failed": failed}
}

// Polled is the answer of `poll`.
type Polled struct {
	Records []Incoming `json:"records"`
	Events  []Event    `json:"events"`
}

// Event is what happened besides records.
type Event struct {
	Event      string  `json:"event"`
	Partitions []Place `json:"partitions,omitempty"`
	Error      *string `json:"error"`
	Message    string  `json:"message,omitempty"`
}

// MarshalJSON leaves out what an event of this kind does not have.
func (e Event) MarshalJSON() ([]byte, error) {
	switch e.Event {
	case "committed":
		return json.Marshal(map[string]any{"event": e.Event, "error": e.Error})
	case "error":
		return json.Marshal(map[string]any{"event": e.Event, "message": e.Message})
	}
	return json.Marshal(map[string]any{
		"event": e.Event, "partitions": Sorted(e.Partitions).Places,
	})
}

// Events are noted by a client's callbacks and taken by the next poll.
type Events struct {
	mutex  sync.Mutex
	events []Event
}

// Note adds one. An error that stands repeats in each poll; it is told once.
func (e *Events) Note(event Event) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	last := len(e.events) - 1
	if event.Event == "error" && last >= 0 && e.events[last].Message == event.Message {
		return
	}
	e.events = append(e.events, event)
}

// Committed notes the answer of an asynchronous commit.
func (e *Events) Committed(err error) {
	event := Event{Event: "committed"}
	if err != nil {
		text := err.Error()
		event.Error = &text
	}
	e.Note(event)
}

// Take returns and forgets all.
func (e *Events) Take() []Event {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	taken := e.events
	e.events = nil
	if taken == nil {
		taken = []Event{}
	}
	return taken
}

// NewTopic is a topic to create.
type NewTopic struct {
	Name       string            `json:"name"`
	Partitions int32             `json:"partitions"`
	Config     map[string]string `json:"config"`
}

// Group is a consumer group.
type Group struct {
	ID        string   `json:"id"`
	State     string   `json:"state"`
	Protocol  string   `json:"protocol"`
	ClientIDs []string `json:"client_ids"`
}

// GroupsAnswer sorts groups and their client ids.
func GroupsAnswer(groups []Group) any {
	slices.SortFunc(groups, func(a, b Group) int { return strings.Compare(a.ID, b.ID) })
	for _, group := range groups {
		slices.Sort(group.ClientIDs)
	}
	if groups == nil {
		groups = []Group{}
	}
	return map[string]any{"groups": groups}
}

// Outcomes is nil for what worked, else the name of the error code.
type Outcomes map[string]any

// Answer makes an answer of outcomes.
func (o Outcomes) Answer() any { return map[string]any{"outcomes": o} }

// Failed notes an error that the client tells beside its answers, Kafka's name of its code in front.
func (e *Events) Failed(client Client, err error) {
	message := err.Error()
	if name, ok := code(client, err).(string); ok {
		message = name + ": " + message
	}
	e.Note(Event{Event: "error", Message: message})
}

// Put notes one; what has no code is told in the client's own words.
func (o Outcomes) Put(client Client, name string, err error) {
	switch named := code(client, err); {
	case err == nil:
		o[name] = nil
	case named != nil:
		o[name] = named
	default:
		o[name] = err.Error()
	}
}

var codes = sync.OnceValue(func() map[string]string {
	return Shared[map[string]string]("error-codes.json")
})

// code is Kafka's name of an error's code, nil where the broker told none.
func code(client Client, err error) any {
	if err == nil {
		return nil
	}
	number, told := client.Code(err)
	name, known := codes()[fmt.Sprint(number)]
	if !told || !known {
		return nil
	}
	return name
}
