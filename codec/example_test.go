package codec_test

import (
	"fmt"

	"github.com/echomq/pipeline/codec"
)

func ExampleParse() {
	id, err := codec.Parse("EVT000xY9Wvvcd")
	fmt.Println(id.Brand(), id.Time().Format("2006-01-02 15:04:05"), id.Node(), id.Seq(), err)

	_, err = codec.Parse("EVT000xY9Wvv-d")
	fmt.Println(err)
	// Output:
	// EVT 2024-01-01 13:53:20 395 2647 <nil>
	// codec: not a branded id: "EVT000xY9Wvv-d": alphabet
}

func ExampleID() {
	e, _ := codec.ParseEntryID("1767225600000-42")
	id, _ := codec.ServerID("EVT", 7, e)
	fmt.Println(id, id.ServerEntry(), id.HostEntry())
	// Output: EVT0JZGkP8stH0 1767225600000-42 1767225600000-28714
}

func ExampleAppendMessage() {
	wire, err := codec.AppendMessage(nil, &codec.Message{
		Type:    "order.placed",
		Key:     "c-1",
		Headers: codec.Headers{{Key: "tr", Value: "00-4b"}},
		Data:    []byte("opaque"),
	})
	fmt.Printf("%q %v\n", wire, err)

	var m codec.Message
	rest, err := codec.DecodeMessage(wire, &m)
	fmt.Println(m.Type, m.Key, m.Headers, string(m.Data), len(rest), err)
	// Output:
	// "\x95\x01\xacorder.placed\xa3c-1\x81\xa2tr\xa500-4b\xc4\x06opaque" <nil>
	// order.placed c-1 [{tr 00-4b}] opaque 0 <nil>
}

func ExampleMsgpack() {
	type placed struct{ Items int }
	c := codec.Msgpack[placed]()

	m := codec.Message{Type: "order.placed", Key: "c-1"}
	err := c.Encode(&m, placed{Items: 3})
	fmt.Printf("%q %v\n", m.Data, err)

	v, err := c.Decode(&m)
	fmt.Println(v.Items, err)
	// Output:
	// "\x81\xa5Items\x03" <nil>
	// 3 <nil>
}

func ExampleIdentity_Records() {
	wire, _ := codec.AppendMessage(nil, &codec.Message{Type: "order.placed", Key: "c-1"})
	e, _ := codec.ParseEntryID("1767225600000-42")
	orders := codec.Identity{Brand: "ORD", Node: 7}

	records := orders.Records(nil, codec.Entry{ID: e, Fields: []string{"m", string(wire)}})
	records = orders.Records(records, codec.Entry{ID: e.Next(), Fields: []string{"payload", "not ours"}})
	for _, r := range records {
		fmt.Printf("%v %q %q foreign=%v\n", r.Position, r.ID, r.Type, r.Foreign())
	}
	// Output:
	// 1767225600000-42 "ORD0JZGkP8stH0" "order.placed" foreign=false
	// 1767225600000-43 "" "" foreign=true
}

func ExampleUpcasts() {
	u := codec.Upcasts{
		"order.created": func(m *codec.Message) error {
			m.Type = "order.placed"
			return nil
		},
	}
	m := codec.Message{Type: "order.created"}
	fmt.Println(u.Apply(&m), m.Type)
	// Output: <nil> order.placed
}
