package stream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// Commit ends deliveries, at most 4096 messages in all: what is open is parked until the first of it is due, what is given
// up goes to the group's dead letters, outputs are written, and the entries are acknowledged, in one step. A parked entry
// is nobody's: it is not pending, and Due takes it up again.
//
// Errors: tier.ErrFenced; *tier.OutputError: that output cannot be written, and nothing was done.
func (m *Member) Commit(ctx context.Context, entries []tier.Ending) error {
	if len(entries) == 0 {
		return nil
	}
	id := m.identify()
	c := commitment{
		place: m.group.place, name: m.group.cfg.Name, fence: m.group.place.addr.OwnersKey(m.group.cfg.Name),
		member: id[1], number: id[2],
	}
	_, err := c.run(ctx, entries)
	return err
}

// commitment is one call of commit.lua.
type commitment struct {
	place          *place // of what is committed
	name           string // of the group or cursor
	fence          string // key
	member, number string
	commit         string // its number, of a cursor; else empty
	at, above      string // of a cursor, as are passed and expected
	passed         string
	expected       Expected

	node     string   // of the scope, once an output appends
	keys     []string // of targets
	index    map[string]int
	declared []string       // two for each target
	logs     map[string]log // by address
	body     []string
	places   [][]int // of each entry, where the outputs begin that are sent as one
	shelf    shelf
}

// run makes the call; again when a stream that outputs go to is to be declared first, once for each. It answers the code.
func (c *commitment) run(ctx context.Context, entries []tier.Ending) (code string, err error) {
	declared := map[string]bool{}
	for {
		call, err := c.call(ctx, entries)
		if err != nil {
			return "", err
		}
		m, err := c.place.client.Run(ctx, call)
		if err != nil {
			return "", err
		}
		parts, err := tier.Parts("commit", m, 5)
		if err != nil {
			return "", err
		}
		code, _ = parts[0].ToString()
		switch code {
		case "ok", "dup":
			return code, nil
		case "fenced":
			return code, tier.ErrFenced
		case "unexpected":
			return code, ErrUnexpected
		}
		entry, _ := parts[2].AsInt64()
		output, _ := parts[3].AsInt64()
		reason, _ := parts[4].ToString()
		if entry < 0 || int(entry) >= len(entries) || output < 0 || int(output) >= len(c.places[entry]) {
			return code, fmt.Errorf("stream: commit: %.32q is no answer of this version", code)
		}
		bad := &tier.OutputError{Entry: entries[entry].Entry, Output: c.places[entry][output]}
		target := entries[entry].Outputs[bad.Output].Target
		switch {
		case code == "undeclared" && !declared[target]:
			declared[target] = true
			if err := c.declare(ctx, target); err != nil {
				return code, err
			}
			continue
		case code == "undeclared":
			bad.Err = fmt.Errorf("%w (%s)", ErrNoStream, target)
		case code == "range":
			bad.Err = ErrIDSpace
		default:
			bad.Err = fmt.Errorf("%s: %s", target, reason)
		}
		return code, bad
	}
}

// declare learns anew what a stream is declared as that outputs go to.
func (c *commitment) declare(ctx context.Context, address string) error {
	p, err := c.place.sibling(address)
	if err != nil {
		return err
	}
	p.declared.Store(nil)
	_, err = p.known(ctx)
	if errors.Is(err, ErrNoStream) {
		_, err = p.declare(ctx, "", "")
	}
	return err
}

func (c *commitment) call(ctx context.Context, entries []tier.Ending) (tier.Call, error) {
	outputs := 0
	for i := range entries {
		outputs += len(entries[i].Outputs)
	}
	c.keys, c.index, c.declared, c.logs = nil, map[string]int{}, nil, map[string]log{}
	c.body, c.places = make([]string, 0, 4*outputs+5*len(entries)), make([][]int, 0, len(entries))
	messages := 0
	for i := range entries {
		e := &entries[i]
		messages += max(1, len(e.Open)+len(e.Dead))
		places := placesOf(e.Outputs)
		c.places = append(c.places, places)
		c.add(e.Entry.String(), strconv.Itoa(e.Deliveries), strconv.Itoa(len(e.Open)), strconv.Itoa(len(e.Dead)), strconv.Itoa(len(places)))
		for _, o := range e.Open {
			delay := millis(max(0, o.Delay))
			if o.Suspect {
				delay = "-" + strconv.FormatInt(takenUp, 10)
			}
			c.add(strconv.Itoa(o.Index), strconv.Itoa(o.Attempt), delay)
		}
		if err := c.letters(ctx, e); err != nil {
			return tier.Call{}, err
		}
		for n, k := range places {
			end := len(e.Outputs)
			if n+1 < len(places) {
				end = places[n+1]
			}
			if err := c.outputs(ctx, e.Outputs[k:end]); err != nil {
				if tier.Classify(err) == nil { // else it is of the server, which may be asked again
					err = &tier.OutputError{Entry: e.Entry, Output: k, Err: err}
				}
				return tier.Call{}, err
			}
		}
	}
	if err := bounded(messages); err != nil {
		return tier.Call{}, err
	}
	a, expects := c.place.addr, ""
	if c.expected != (Expected{}) {
		expects = c.target(tier.StateKey(a.Scope, c.expected.State), "", "")
	}
	keys := []string{a.LogKey(), c.fence, a.RetryKey(c.name), a.OpenKey(c.name), a.DeadKey(c.name), tier.ScopeKey(a.Scope)}
	args := append([]string{c.name, c.member, c.number, c.commit, c.at, c.above, c.passed, c.node, expects, c.expected.Field, c.expected.Value, strconv.Itoa(len(c.keys))}, c.declared...)
	return tier.Call{Script: commitScript, Keys: append(keys, c.keys...), Args: slices.Concat(args, c.body)}, nil
}

func (c *commitment) add(args ...string) { c.body = append(c.body, args...) }

func (c *commitment) letters(ctx context.Context, e *tier.Ending) error {
	raw, of, err := c.place.rawMessages(ctx, e)
	if err != nil {
		return err
	}
	for i, d := range e.Dead {
		index := ""
		if d.Index >= 0 {
			index = strconv.Itoa(d.Index)
		}
		c.add(index, strconv.Itoa(of), d.Reason, strconv.Itoa(d.Attempts), raw[i])
	}
	return nil
}

// placesOf is where the outputs begin that are sent as one: fields of one state that are set one after another. A state of
// which many change costs the server little then.
func placesOf(outputs []tier.Output) []int {
	places := make([]int, 0, len(outputs))
	for i := range outputs {
		if i == 0 || outputs[i].Kind != tier.OutputHashSet || outputs[i-1].Kind != tier.OutputHashSet || outputs[i].Target != outputs[i-1].Target {
			places = append(places, i)
		}
	}
	return places
}

// outputs adds outputs that are sent as one.
func (c *commitment) outputs(ctx context.Context, outputs []tier.Output) error {
	if len(outputs) == 1 {
		return c.output(ctx, &outputs[0])
	}
	key, err := outputs[0].Key(c.place.addr.Scope)
	if err != nil {
		return err
	}
	c.add("hash_sets", c.target(key, "", ""), strconv.Itoa(len(outputs)), "")
	for i := range outputs {
		c.body = append(c.body, outputs[i].Member, outputs[i].Value)
	}
	return nil
}

// output adds one output, and its target.
func (c *commitment) output(ctx context.Context, o *tier.Output) error {
	if o.Kind != tier.OutputAppend {
		key, err := o.Key(c.place.addr.Scope)
		if err == nil {
			c.add(string(o.Kind), c.target(key, "", ""), o.Member, o.Value)
		}
		return err
	}
	to, ok := c.logs[o.Target]
	if !ok {
		var err error
		if to, err = c.log(ctx, o); err != nil {
			return err
		}
		c.logs[o.Target] = to
	}
	index := ""
	if to.keyed {
		if o.Message.Key == "" {
			return fmt.Errorf("stream: %s is keyed: its messages need a key", to.addr)
		}
		index = c.target(to.addr.IndexKey(o.Message.Key), "", "")
	}
	m, err := codec.AppendMessage(c.shelf.room(o.Message.Size()), &o.Message)
	if err == nil {
		c.add(string(o.Kind), to.target, stringOf(m), index)
	}
	return err
}

// log is a stream that outputs append to.
type log struct {
	addr   tier.Address
	keyed  bool
	target string // its number
}

// log looks up where an output is appended to, and declares it if nobody has.
func (c *commitment) log(ctx context.Context, o *tier.Output) (log, error) {
	key, err := o.Key(c.place.addr.Scope)
	if err != nil {
		return log{}, err
	}
	p, err := c.place.sibling(o.Target)
	if err != nil {
		return log{}, err
	}
	id, err := p.known(ctx)
	if errors.Is(err, ErrNoStream) {
		id, err = p.declare(ctx, "", "")
	}
	if err != nil {
		return log{}, err
	}
	if id.Exclusive {
		return log{}, fmt.Errorf("stream: %s has one writer, which mints its ids: nothing else can append to it", p.addr)
	}
	c.node = strconv.Itoa(id.Node)
	return log{p.addr, id.kind == keyed, c.target(key, tier.StreamField(p.addr.Stream), id.text())}, nil
}

// target is the number of a key among the targets.
func (c *commitment) target(key, field, declared string) string {
	n, ok := c.index[key]
	if !ok {
		c.keys = append(c.keys, key)
		c.declared = append(c.declared, field, declared)
		n = len(c.keys)
		c.index[key] = n
	}
	return strconv.Itoa(n)
}

// rawMessages are the bytes of the messages of a pack that are given up, as they stand in the log, and how many it has;
// empty for a whole entry, which the script copies, or the msgpack of its fields when only the archive has it, and for one that was trimmed.
func (p *place) rawMessages(ctx context.Context, e *tier.Ending) (raw []string, of int, err error) {
	raw = make([]string, len(e.Dead))
	var pack string
	for i, d := range e.Dead {
		if d.Index < 0 && p.past == nil {
			continue
		}
		if pack == "" {
			entry, ok, err := p.entry(ctx, e.Entry)
			if err != nil || !ok {
				return raw, 0, err
			}
			if d.Index < 0 {
				raw[i] = packed(entry.Fields)
				continue
			}
			pack = codec.PackField(entry)
			if of, err = codec.PackLen([]byte(pack)); err != nil {
				return nil, 0, fmt.Errorf("stream: dead letter of %s: %w", e.Entry, err)
			}
		}
		message, err := codec.PackedMessage([]byte(pack), d.Index)
		if err != nil {
			return nil, 0, fmt.Errorf("stream: dead letter of %s: %w", e.Entry, err)
		}
		raw[i] = string(message)
	}
	return raw, of, nil
}

// packed is a list of strings as msgpack.
func packed(list []string) string {
	b := binary.BigEndian.AppendUint32([]byte{0xdd}, uint32(len(list)))
	for _, s := range list {
		b = append(binary.BigEndian.AppendUint32(append(b, 0xdb), uint32(len(s))), s...)
	}
	return stringOf(b)
}
