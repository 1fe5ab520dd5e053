package node_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

func allBytes() string {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return string(b)
}

func nested(depth int) []byte { return append([]byte(strings.Repeat("\x91", depth)), 0xc0) }

// corners are messages at the borders of the format.
func corners() []codec.Message {
	headers := codec.Headers{}
	for i := range 64 {
		headers = append(headers, codec.Header{Key: fmt.Sprintf("%d-%s", i, strings.Repeat("h", 3*i)), Value: strings.Repeat("v", 128*i)})
	}
	return []codec.Message{
		{},
		{Type: "order.placed", Key: "c-1", Headers: codec.Headers{{Key: "content-type", Value: "application/json"}}, Data: []byte(`{"total":12.5}`)},
		{Type: strings.Repeat("t", 255), Key: strings.Repeat("k", 1024), Headers: headers, Data: []byte(allBytes())},
		{Type: "not \xff UTF-8", Key: "\x00", Headers: codec.Headers{{Key: "", Value: ""}, {Key: "\xfe", Value: "\ufeffü\r\n"}}},
		{Type: "str", Data: []byte(strings.Repeat("x", 256))},
		{Type: "large", Data: []byte(strings.Repeat("y", 70000))},
		{Type: "nil", Data: []byte{0xc0}, Format: codec.FormatMsgpack},
		{Type: "deep", Data: nested(64), Format: codec.FormatMsgpack},
		{Type: "map", Data: []byte("\x82\xa5Items\x03\xa2at\xd6\xff\x6a\x18\x7a\x80"), Format: codec.FormatMsgpack},
	}
}

// fill writes with our writers, one message an entry and several, and past them.
func fill(t *testing.T, e *site) {
	t.Helper()
	good, err := codec.AppendMessage(nil, &codec.Message{Type: "by another program", Key: "k"})
	require.NoError(t, err)
	id, err := codec.Parse(string(e.identity.Brand) + "0JZGkPAIoeX")
	require.NoError(t, err)
	pack, err := codec.AppendPack(nil, 2, append(good, good...), codec.NoCompression)
	require.NoError(t, err)

	e.xadd(t, "0-1", "m", string(good))                // before the time of ids
	e.xadd(t, "1767225600000-0", "b", string(pack))    // no room below
	e.xadd(t, "1767225600000-4095", "m", string(good)) // the last sequence with an id
	e.xadd(t, "1767225600000-4096", "m", string(good)) // the first without
	e.xadd(t, "1767225600001-18446744073709551615", "m", string(good))
	_, err = e.writer(t, 1).AppendBatch(t.Context(), corners())
	require.NoError(t, err)
	_, err = e.writer(t, 4).AppendBatch(t.Context(), corners())
	require.NoError(t, err)
	e.xadd(t, "*", "payload", allBytes(), "", "")
	e.xadd(t, "*", "m", "{}", "x", "")
	e.xadd(t, "*", "m", string(good)+"\xc0")
	e.xadd(t, "*", "m", "", "b", string(pack))
	e.xadd(t, "*", "b", string(pack), "x", "y", "m", string(good), "m", "twice")
	e.xadd(t, "*", "m", string(good), "id", id.String())
	e.xadd(t, "*", "m", string(good), "id", id.String()+"x")
	e.xadd(t, "*", "m", string(good), "id", "ZZZ"+id.String()[3:])
	e.xadd(t, "*", "m", string(good), "id", "")
	top := e.records(t)
	e.xadd(t, fmt.Sprintf("%d-7", top[len(top)-1].Addr.Ms+1), "b", string(pack), "id", id.String())
	_, err = e.writer(t, 3).AppendBatch(t.Context(), corners())
	require.NoError(t, err)
}

func TestReadSeesWhatOurReaderSees(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		e := newSite(t, s)
		fill(t, e)
		want := linesOf(e.records(t))
		require.Equal(t, want, parse(t, runOK(t, s.URL(), "", "read.mjs", e.address)))
		require.Equal(t, want, parse(t, runOK(t, s.URL(), "", "read.mjs", "--page", "2", e.address)), "in small pages")
	})
}

// TestReadOverTCP: the socket is only where this machine's servers listen.
func TestReadOverTCP(t *testing.T) {
	s := tiertest.Shared(t, tiertest.Valkey)
	e := newSite(t, s)
	_, err := e.writer(t, 1).AppendBatch(t.Context(), corners())
	require.NoError(t, err)
	url := tiertest.NewProxy(t, s).URL()
	require.Equal(t, linesOf(e.records(t)), parse(t, runOK(t, "", "", "read.mjs", "--url", url, e.address)))
}

// TestReadJudgesBrokenBytesAlike: what one reader refuses, the other does too. Bytes are changed at random, always in the
// same way.
func TestReadJudgesBrokenBytesAlike(t *testing.T) {
	e := newSite(t, tiertest.Shared(t, tiertest.Valkey))
	random := rand.New(rand.NewPCG(1, 2))
	var seeds [][2]string
	var body []byte
	for _, m := range append(corners()[:4], corners()[6:]...) {
		m.Headers = m.Headers[:min(len(m.Headers), 3)]
		b, err := codec.AppendMessage(nil, &m)
		require.NoError(t, err)
		body = append(body, b...)
		seeds = append(seeds, [2]string{"m", string(b)})
	}
	seeds = append(seeds,
		[2]string{"m", "\x95\x01\xa0\xa0\x80" + string(nested(65))},
		[2]string{"m", "\x96\x01\xa0\xa0\x80\xc4\x00" + string(nested(64))},
		[2]string{"m", "\x96\x01\xa0\xa0\x80\xc4\x00" + string(nested(65))},
		[2]string{"m", "\x95\x01\xa0\xa0\xde\x00\x41" + strings.Repeat("\xa1h\xa1v", 65) + "\xc4\x00"})
	short, err := codec.AppendPack(nil, 7, body, codec.NoCompression)
	require.NoError(t, err)
	seeds = append(seeds, [2]string{"b", string(short)})
	for _, seed := range seeds {
		e.xadd(t, "*", seed[0], seed[1])
	}
	for range 1500 {
		seed := seeds[random.IntN(len(seeds))]
		b := []byte(seed[1])
		for range 1 + random.IntN(2) {
			at := random.IntN(min(len(b), 40))
			if random.IntN(3) == 0 {
				at = random.IntN(len(b))
			}
			switch random.IntN(4) {
			case 0:
				b = append(b[:at], append([]byte{byte(random.IntN(256))}, b[at:]...)...)
			case 1:
				b = append(b[:at], b[min(at+1, len(b)-1):]...)
			default:
				b[at] = []byte{byte(random.IntN(256)), 0xc0 + byte(random.IntN(32)), 0x90, 0xff}[random.IntN(4)]
			}
		}
		e.xadd(t, "*", seed[0], string(b))
	}
	want := linesOf(e.records(t))
	got := parse(t, runOK(t, e.server.URL(), "", "read.mjs", e.address))
	require.Len(t, got, len(want))
	read := 0
	for i := range want {
		require.Equal(t, want[i], got[i], "%x", want[i].Fields)
		if want[i].Fields == nil {
			read++
		}
	}
	require.NotZero(t, read)
	require.NotEqual(t, len(want), read)
}

// TestReadDecodesMsgpack: numbers of every width keep all their digits.
func TestReadDecodesMsgpack(t *testing.T) {
	e := newSite(t, tiertest.Shared(t, tiertest.Valkey))
	tests := []struct{ name, data, want string }{
		{"nil", "\xc0", `null`},
		{"bools", "\x92\xc2\xc3", `[false,true]`},
		{"small", "\x92\x7f\xe0", `[127,-32]`},
		{"unsigned", "\x93\xcc\xff\xcd\xff\xff\xce\xff\xff\xff\xff", `[255,65535,4294967295]`},
		{"highest", "\xcf\xff\xff\xff\xff\xff\xff\xff\xff", `18446744073709551615`},
		{"2^53", "\xcf\x00\x20\x00\x00\x00\x00\x00\x00", `9007199254740992`},
		{"2^53+1", "\xcf\x00\x20\x00\x00\x00\x00\x00\x01", `9007199254740993`},
		{"signed", "\x93\xd0\x80\xd1\x80\x00\xd2\x80\x00\x00\x00", `[-128,-32768,-2147483648]`},
		{"lowest", "\xd3\x80\x00\x00\x00\x00\x00\x00\x00", `-9223372036854775808`},
		{"-2^53-1", "\xd3\xff\xdf\xff\xff\xff\xff\xff\xff", `-9007199254740993`},
		{"floats", "\x92\xca\x3f\x00\x00\x00\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00", `[0.5,1.5]`},
		{"not a number", "\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00", `{"float":"NaN"}`},
		{"strings", "\x93\xa2\xc3\xbc\xd9\x01\"\xa1\xff", `["ü","\"",{"base64":"/w=="}]`},
		{"bytes and an extension", "\x92\xc4\x01\x01\xd4\x05\x02", `[{"base64":"AQ=="},{"ext":5,"base64":"Ag=="}]`},
		{"a map", "\x82\xa1b\x01\xa1a\x80", `{"b":1,"a":{}}`},
		{"a map by numbers", "\x81\x01\xa1a", `{"map":[[1,"a"]]}`},
		{"a key twice", "\x82\xa1a\x01\xa1a\x02", `{"map":[["a",1],["a",2]]}`},
		{"a key that objects have", "\x81\xa9__proto__\x01", `{"__proto__":1}`},
	}
	for _, tt := range tests {
		_, err := e.writer(t, 1).Append(t.Context(), codec.Message{Type: tt.name, Data: []byte(tt.data), Format: codec.FormatMsgpack})
		require.NoError(t, err)
	}
	out := strings.Split(strings.TrimSpace(runOK(t, e.server.URL(), "", "read.mjs", e.address)), "\n")
	require.Len(t, out, len(tests))
	for i, tt := range tests {
		var got struct {
			Type  string
			Value json.RawMessage
		}
		require.NoError(t, json.Unmarshal([]byte(out[i]), &got))
		require.Equal(t, tt.name, got.Type)
		require.Equal(t, tt.want, string(got.Value), tt.name)
	}
}

// TestReadHostOrder: the entries of an exclusive writer, which keep their ids.
func TestReadHostOrder(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		e := newSite(t, s)
		brand := string(e.identity.Brand)
		e.declare(t, brand+tier.ExclusiveMark)
		good, err := codec.AppendMessage(nil, &codec.Message{Type: "t", Key: "k"})
		require.NoError(t, err)
		pack, err := codec.AppendPack(nil, 2, append(good, good...), codec.NoCompression)
		require.NoError(t, err)
		e.xadd(t, "1704117200000-1620567", "m", string(good), "id", brand+"000xY9Wvvcd")
		e.xadd(t, "1704117200000-1620568", "m", string(good), "id", brand+"000xY9Wvvcd") // not its entry
		e.xadd(t, "1704117200000-1620600", "m", string(good))
		e.xadd(t, "1704117200000-1620700", "b", string(pack))
		e.xadd(t, "1767225600000-28714", "id", brand+"0JZGkP8stH0", "b", string(pack))
		e.xadd(t, "1767225600000-4194303", "m", string(good))
		e.xadd(t, "1767225600000-4194304", "m", string(good)) // beyond the 22 bits
		identity := e.identity
		identity.Exclusive = true
		var want []codec.Record
		rows, err := e.raw.Do(t.Context(), e.raw.B().Xrange().Key(e.key).Start("-").End("+").Build()).AsXRangeSlices()
		require.NoError(t, err)
		for _, row := range rows {
			entry := codec.Entry{}
			entry.ID, err = codec.ParseEntryID(row.ID)
			require.NoError(t, err)
			for _, f := range row.FieldValues {
				entry.Fields = append(entry.Fields, f.Field, f.Value)
			}
			want = identity.Records(want, entry)
		}
		require.Len(t, want, 9)
		require.Equal(t, linesOf(want), parse(t, runOK(t, s.URL(), "", "read.mjs", e.address)))
	})
}
