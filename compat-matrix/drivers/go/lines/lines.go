// Package lines speaks the driver protocol: one JSON object a line in, one a line out.
package lines

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
)

const protocol = 1

// Longest line that is read: a large batch of records in Base64.
const maxLine = 256 << 20

// Unsupported is what the client has no way to do, whatever the server says.
type Unsupported string

func (u Unsupported) Error() string { return string(u) }

// Session has the clients of one session.
type Session interface {
	Perform(op string, line Line) (any, error)
	Close()
}

// Line is an operation; its fields depend on its name.
type Line json.RawMessage

// Into reads the fields of an operation.
func Into[T any](line Line) (T, error) {
	var fields T
	err := json.Unmarshal(line, &fields)
	return fields, err
}

// Begin is what all clients of a session are configured with.
type Begin struct {
	Bootstrap string `json:"bootstrap"`
	ClientID  string `json:"client_id"`
	TLS       *struct {
		CAFile string `json:"ca_file"`
	} `json:"tls"`
	SASL *struct {
		Mechanism string `json:"mechanism"`
		Username  string `json:"username"`
		Password  string `json:"password"`
	} `json:"sasl"`
}

// Client is a driver.
type Client struct {
	Name   string
	Module string
	// Lacks is taken away from all capabilities of the protocol.
	Lacks []string
	Open  func(Begin) (Session, error)
	// Code is Kafka's code of an error, and whether the broker told one.
	Code func(error) (int16, bool)
}

// Serve answers until standard input ends.
func Serve(client Client) {
	answers := os.Stdout
	// A library that prints would break the protocol.
	os.Stdout = os.Stderr
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, maxLine)
	out := json.NewEncoder(answers)
	var session Session
	for in.Scan() {
		value, err := answer(client, &session, slices.Clone(in.Bytes()))
		var unsupported Unsupported
		var reply map[string]any
		switch {
		case err == nil:
			reply = map[string]any{"ok": value}
		case errors.As(err, &unsupported):
			reply = map[string]any{"unsupported": string(unsupported)}
		default:
			reply = map[string]any{"error": map[string]any{
				"code": code(client, err), "message": err.Error(),
			}}
		}
		if err := out.Encode(reply); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
	}
	if session != nil {
		session.Close()
	}
}

func answer(client Client, session *Session, line Line) (any, error) {
	op, err := Into[struct {
		Op string `json:"op"`
	}](line)
	if err != nil {
		return nil, err
	}
	switch op.Op {
	case "hello":
		return hello(client)
	case "begin":
		begin, err := Into[Begin](line)
		if err != nil {
			return nil, err
		}
		*session, err = client.Open(begin)
		return Nothing, err
	case "end":
		if *session != nil {
			(*session).Close()
		}
		*session = nil
		return Nothing, nil
	}
	if *session == nil {
		return nil, errors.New("no session has begun")
	}
	return (*session).Perform(op.Op, line)
}

// Nothing is the answer of what answers nothing.
var Nothing = struct{}{}

func hello(client Client) (any, error) {
	var all []string
	if err := shared("capabilities.json", &all); err != nil {
		return nil, err
	}
	for _, lack := range client.Lacks {
		if !slices.Contains(all, lack) {
			return nil, fmt.Errorf("%s is no capability", lack)
		}
	}
	can := slices.DeleteFunc(all, func(name string) bool {
		return slices.Contains(client.Lacks, name)
	})
	return map[string]any{
		"protocol": protocol, "client": client.Name, "version": version(client.Module), "can": can,
	}, nil
}

// version is the one that the module was linked in.
func version(module string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == module {
				return dep.Version[1:]
			}
		}
	}
	return ""
}

// shared reads a file that drivers of all languages share; it lies beside the program.
func shared(name string, into any) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(program), "common", name))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// Shared is `shared` for a file that must be there.
func Shared[T any](name string) T {
	var value T
	if err := shared(name, &value); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}
