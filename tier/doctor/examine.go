package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// Options of Examine. The zero value examines everything.
type Options struct {
	Scopes []string // to examine; none: all of the registry
	As     As       // the role that the user is to have: what it lacks of it is an error, and of the others not asked
	Marks  Marks
	Now    func() time.Time // the host's clock; nil: time.Now
}

// Examine asks the servers and says what it found. Nothing is changed. What the user may not look at is a note in the
// report; the error says that the examination could not be made.
//
// Errors: tier.ErrName.
func Examine(ctx context.Context, client *tier.Client, o Options) (Report, error) {
	for _, scope := range o.Scopes {
		if err := tier.CheckName("scope", scope); err != nil {
			return Report{}, err
		}
	}
	if all := append(Roles(), QueueRoles()...); o.As.Role != "" && !slices.Contains(all, o.As.Role) {
		return Report{}, fmt.Errorf("doctor: no role is called %q: there are %s", o.As.Role, strings.Join(all, ", "))
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	e := &examination{client: client, as: o.As, now: o.Now}
	e.nodes(ctx, client.Nodes())
	err := errors.Join(e.tolerate(ctx, "the version key", tier.VersionKey, e.wire(ctx)), e.tolerate(ctx, "the registry, or part of it,", tier.NodesKey, e.registry(ctx)))
	scopes := slices.Compact(slices.Sorted(slices.Values(o.Scopes)))
	if len(scopes) == 0 {
		e.unlisted()
		for scope := range e.facts.Registry.Scopes {
			scopes = append(scopes, scope)
		}
	}
	for _, scope := range scopes {
		if err == nil {
			err = e.scope(ctx, scope)
		}
	}
	if err != nil {
		return Report{}, err
	}
	r := Report{Findings: Diagnose(e.facts, o.Marks), Nodes: len(e.facts.Nodes), Scopes: len(e.facts.Scopes)}
	for _, s := range e.facts.Scopes {
		r.Streams += len(s.Streams)
		for _, st := range s.Streams {
			r.Groups += len(st.Groups)
			r.Cursors += len(st.Cursors)
		}
	}
	return r, nil
}

// ExamineNodes examines the servers that a URL names and nothing else, each by itself: when Dial has failed, of a cluster that
// is down too. The report is empty when none of them lets anybody in.
//
// Errors: tier.ErrURL, and that of ctx.
func ExamineNodes(ctx context.Context, url string, opts tier.Options, m Marks) (Report, error) {
	nodes, closeAll, err := tier.DialNodes(ctx, url, opts)
	if err != nil {
		return Report{}, err
	}
	defer closeAll()
	e := &examination{now: time.Now}
	e.nodes(ctx, nodes)
	return Report{Findings: Diagnose(e.facts, m), Nodes: len(nodes)}, nil
}

type examination struct {
	client *tier.Client
	as     As
	now    func() time.Time
	facts  Facts
}

// tolerate notes what a server refuses or cannot answer, and lets all other errors through: the examination goes on.
func (e *examination) tolerate(ctx context.Context, what, where string, err error) error {
	if class := tier.Classify(err); class == nil || class == tier.ErrClosed || ctx.Err() != nil {
		return err
	}
	e.unexamined(what, where, err)
	return nil
}

func (e *examination) unexamined(what, where string, err error) {
	u := Unexamined{Where: where, What: what, Why: err.Error(), Do: "see the other findings, mend them, and examine it again"}
	var denied *tier.PermissionError
	if errors.As(err, &denied) {
		u.Why, _, _ = strings.Cut(strings.TrimPrefix(denied.Text, "NOPERM "), " script: ") // and where in it
		u.Do = "grant the right with ACL SETUSER, or examine it as another user"
	}
	var said *tier.Error
	if errors.As(err, &said) && said.Class == tier.ErrServer {
		u.Why = strings.TrimSpace(said.Err.Error())
		u.Do = "if the command was renamed away, look where the server is configured, or take rename-command out of there"
	}
	e.facts.Unexamined = append(e.facts.Unexamined, u)
}

// unlisted says that there was nothing to examine, when the registry could not be read.
func (e *examination) unlisted() {
	for i := range e.facts.Unexamined {
		if u := &e.facts.Unexamined[i]; u.Where == tier.NodesKey && e.facts.Registry.Scopes == nil {
			u.All, u.What = true, "the registry, and so every scope,"
			u.Do += ", or name the scopes, as in 'pipeline doctor shop'"
		}
	}
}

func (e *examination) wire(ctx context.Context) error {
	m, err := e.client.Do(ctx, tier.VersionKey, e.client.B().Get().Key(tier.VersionKey).Build())
	if err == nil {
		e.facts.Wire, err = m.ToString()
	}
	if rueidis.IsRedisNil(err) {
		return nil
	}
	return err
}

func (e *examination) registry(ctx context.Context) error {
	row := map[string]string{}
	if err := e.client.ScanHash(ctx, tier.NodesKey, func(field, value string) { row[field] = value }); err != nil {
		return err
	}
	e.facts.Registry = Registry{Scopes: map[string]string{}, Holders: map[string]string{}}
	r := &e.facts.Registry
	var limits []int64
	for field, value := range row {
		if scope, ok := strings.CutPrefix(field, tier.ScopeNumberField("")); ok {
			r.Scopes[scope] = value
			continue
		}
		n, err := strconv.Atoi(field[strings.LastIndexByte(field, ':')+1:])
		switch {
		case err != nil || field != tier.NumberField(n):
		case n < tier.MaxScopes:
			r.Holders[strconv.Itoa(n)] = value
		default:
			_, limit, _ := strings.Cut(value, " ")
			limits = append(limits, number(limit))
		}
	}
	now, err := e.client.Now(ctx, tier.NodesKey)
	for _, limit := range limits {
		if err == nil && limit > now.UnixMilli() {
			r.Leased++
		}
	}
	return err
}

func (e *examination) scope(ctx context.Context, name string) error {
	where := "scope " + name
	s := Scope{Name: name, Known: true}
	err := stream.Check(ctx, e.client, name)
	for _, f := range tier.Findings(err) {
		s.Broken, err = append(s.Broken, *f), nil
	}
	if err := e.tolerate(ctx, "what must hold", where, err); err != nil {
		return err
	}
	node, err := e.client.StoredNode(ctx, name)
	if err == nil && node < 0 && len(s.Broken) == 0 {
		s.Known = false
	}
	if err := e.tolerate(ctx, "its number", where, ignoreDamage(err)); err != nil {
		return err
	}
	if err := e.tolerate(ctx, "its streams", where, e.streams(ctx, &s)); err != nil {
		return err
	}
	lacks, err := lacking(ctx, e.client, &s, e.as)
	if err := e.tolerate(ctx, "the user's rights", where, err); err != nil {
		return err
	}
	e.facts.Rights = append(e.facts.Rights, lacks...)
	e.facts.Scopes = append(e.facts.Scopes, s)
	return nil
}

// ignoreDamage: a number that is none is a finding of Check already.
func ignoreDamage(err error) error {
	if tier.Classify(err) == nil {
		return nil
	}
	return err
}

func (e *examination) streams(ctx context.Context, s *Scope) error {
	policies, err := stream.Retentions(ctx, e.client, s.Name)
	if err != nil {
		return err
	}
	for info, err := range stream.Streams(ctx, e.client, s.Name) {
		if err != nil {
			return err
		}
		st := Stream{Info: info, Retained: slices.ContainsFunc(policies, func(r stream.Retained) bool { return r.Address == info.Address })}
		if err := e.tolerate(ctx, "the stream", info.Address.String(), e.stream(ctx, &st)); err != nil {
			return err
		}
		s.Streams = append(s.Streams, st)
	}
	return nil
}

func (e *examination) stream(ctx context.Context, s *Stream) (err error) {
	key := s.Address.LogKey()
	if s.Now, err = e.client.Now(ctx, key); err != nil {
		return err
	}
	m, err := e.client.Do(ctx, key, e.client.B().MemoryUsage().Key(key).Build())
	if err == nil {
		s.Bytes, err = m.AsInt64()
	}
	if !rueidis.IsRedisNil(err) {
		if err := e.tolerate(ctx, "its memory", s.Address.String(), err); err != nil {
			return err
		}
	}
	if s.Groups, err = stream.GroupDetails(ctx, e.client, s.Address.String()); err != nil {
		return err
	}
	if s.Cursors, err = stream.Cursors(ctx, e.client, s.Address.String()); errors.Is(err, stream.ErrStreamRemoved) {
		return nil
	}
	return e.tolerate(ctx, "its cursors", s.Address.String(), err)
}
