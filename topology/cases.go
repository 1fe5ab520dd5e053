package topology

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"strconv"
	"time"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/topology/stage"
)

// Cases say what the stages of a document make of what they are given.
type Cases struct {
	// Document is the file of the topology, by its path from the directory of this one.
	Document string `yaml:"document"`
	// Cases by name.
	Cases map[string]Case `yaml:"cases"`
}

// Case is what goes in, and what has to come out. Streams, queues and stages that it does not name may have anything; dead letters
// that it does not name may not be.
type Case struct {
	// Given are messages by stream, as if somebody had appended them before any stage ran.
	Given map[string][]Sample `yaml:"given"`
	// States are what joins find: by name of a state, by field, any value.
	States map[string]map[string]any `yaml:"states,omitempty"`
	// Answers are what webhooks get, by stage. Nothing is sent. Default: an empty answer.
	Answers map[string]any `yaml:"answers,omitempty"`

	// Expect are all the messages of a stream, in their order, without those that were given; an empty list: none.
	Expect map[string][]Sample `yaml:"expect,omitempty"`
	// Dead are the reasons of the dead letters of a stage, in their order: a part of each.
	Dead map[string][]string `yaml:"dead,omitempty"`
	// Jobs are those of a queue, in their order.
	Jobs map[string][]JobSample `yaml:"jobs,omitempty"`
	// Posts are the bodies that a webhook was sent, in their order.
	Posts map[string][]any `yaml:"posts,omitempty"`
}

// Sample is a message that is given, or expected: then what is not written may be anything.
type Sample struct {
	Key  *string `yaml:"key,omitempty"`
	Type *string `yaml:"type,omitempty"`
	// Time is when it is appended, never before the one before it. Default: as that one; at first 2026-01-01T00:00:00Z. Of one
	// that is expected it is when what made it was appended.
	Time    time.Time         `yaml:"time,omitempty"`
	Headers map[string]string `yaml:"headers,omitempty"`
	// Data is a text as it is, anything else as JSON. In Go null is json.RawMessage("null"), and nil is that nothing is written.
	Data any `yaml:"data,omitempty"`
}

// JobSample is a job that is expected; what is not written may be anything.
type JobSample struct {
	Key  *string `yaml:"key,omitempty"`
	Type *string `yaml:"type,omitempty"`
	Lane *string `yaml:"lane,omitempty"`
	Data any     `yaml:"data,omitempty"`
}

// LoadCases reads cases, and the document that they are of.
//
// The error is Problems, all that is wrong with either; or that of reading the first file.
func LoadCases(path string, opts LoadOptions) (*Cases, *Document, error) {
	opts.setDefaults()
	text, err := opts.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	c := &Cases{}
	d := &decoder{options: opts, places: map[string]place{}, secrets: secrets{}}
	if root := d.parse(path, text); root != nil {
		d.value(root, reflect.ValueOf(c).Elem(), "", 0)
	}
	if err := d.problems.err(); err != nil {
		return nil, nil, err
	}
	at := func(path string) Position { return (&Document{places: d.places}).find(path).at(0, 0) }
	refuse := func(path, do, what string) {
		d.problems = append(d.problems, &Problem{Position: at(path), Path: path, What: what, Do: do})
	}
	if c.Document == "" {
		refuse("document", "write its file, as in document: shop.yaml", "nothing says what is tested")
		return nil, nil, d.problems.err()
	}
	file := c.Document
	if !filepath.IsAbs(file) {
		file = filepath.Join(filepath.Dir(path), file)
	}
	doc, err := Load(file, opts)
	if err != nil {
		if _, wrong := err.(Problems); !wrong { //nolint:errorlint // Load returns them as they are
			refuse("document", "write a path from the directory of this file", "it cannot be read: "+err.Error())
			err = d.problems.err()
		}
		return nil, nil, err
	}
	for _, name := range sorted(c.Cases) {
		c.check(doc, "cases."+name, c.Cases[name], refuse)
	}
	if len(c.Cases) == 0 {
		refuse("cases", "write cases: and a name for each below it", "there are no cases")
	}
	if err := d.problems.err(); err != nil {
		return nil, nil, err
	}
	return c, doc, nil
}

// check finds names that the document does not have, and what is no JSON.
func (c *Cases) check(doc *Document, path string, one Case, refuse func(path, do, what string)) {
	streams := map[string]bool{}
	for scope, s := range doc.Scopes {
		for name := range s.Streams {
			streams[scope+"/"+name] = true
		}
	}
	states := map[string]bool{}
	for _, s := range doc.Stages {
		if s.Join != nil {
			states[s.Join.State] = true
		}
	}
	known := func(field, name, kind string, there bool, names []string) {
		if !there {
			refuse(path+"."+field+"."+name, meant(name, names, "declare it, or leave it out"), "the document has no "+kind+" of this name")
		}
	}
	value := func(path string, v any) {
		if _, err := json.Marshal(v); err != nil {
			refuse(path, "write names as text, in quotes, and values that JSON can hold", "it cannot be written as JSON")
		}
	}
	if len(one.Given) == 0 {
		refuse(path, "write given: and messages by stream", "nothing is given")
	}
	for _, name := range sorted(one.Given) {
		known("given", name, "stream", streams[name], sorted(streams))
		var last time.Time
		for i, s := range one.Given[name] {
			at := path + ".given." + name + "." + strconv.Itoa(i)
			value(at+".data", s.Data)
			if t := s.Time; !t.IsZero() && t.Before(last) {
				refuse(at+".time", "write messages in the order of their times; times that a window goes by stand in the data", "it is before that of the message before")
			} else if !t.IsZero() {
				last = t
			}
		}
	}
	for _, name := range sorted(one.States) {
		known("states", name, "join with a state", states[name], sorted(states))
		value(path+".states."+name, one.States[name])
	}
	for _, name := range sorted(one.Expect) {
		known("expect", name, "stream", streams[name], sorted(streams))
		value(path+".expect."+name, dataOf(one.Expect[name]))
	}
	for _, name := range sorted(one.Jobs) {
		_, there := doc.Queues[name]
		known("jobs", name, "queue", there, sorted(doc.Queues))
	}
	for field, names := range map[string][]string{"dead": sorted(one.Dead), "posts": sorted(one.Posts), "answers": sorted(one.Answers)} {
		for _, name := range names {
			_, there := doc.Stages[name]
			known(field, name, "stage", there, sorted(doc.Stages))
		}
	}
	value(path+".answers", one.Answers)
	value(path+".posts", one.Posts)
}

func dataOf(samples []Sample) (all []any) {
	for _, s := range samples {
		all = append(all, s.Data)
	}
	return all
}

// trialOptions are what a stage finds in a case.
func (c *Case) trialOptions(name string, cfg *stage.Config, opts stage.Options) stage.TrialOptions {
	o := stage.TrialOptions{Options: opts}
	if cfg.Join != nil {
		o.State = map[string]json.RawMessage{}
		for field, v := range c.States[cfg.Join.State] {
			o.State[field], _ = json.Marshal(v) // it was checked
		}
	}
	if answer, given := c.Answers[name]; given {
		o.Answer, _ = json.Marshal(answer)
	}
	return o
}

// brandOf is what ids of a trial begin with.
func brandOf(address string, doc *Document) string {
	a, err := tier.ParseAddress(address)
	if brand := doc.Scopes[a.Scope].Streams[a.Stream].Brand; err == nil && brand != "" {
		return brand
	}
	return "TRY"
}

// Names are those of the cases, in their order.
func (c *Cases) Names() []string { return sorted(c.Cases) }
