package demo

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"io"

	"github.com/echomq/pipeline/cmd/pipeline/internal/input"
	"github.com/echomq/pipeline/codec"
)

// Credit names the source of the sample.
const Credit = "NCEDC earthquake catalogue, UC Berkeley, doi:10.7932/NCEDC"

//go:embed testdata/earthquakes.csv
var sample []byte

// Sample returns the earthquakes of the sample as messages, keyed by network.
func Sample() ([]codec.Message, error) {
	r, err := input.New(bytes.NewReader(sample), input.Config{
		File: "earthquakes.csv", Format: "csv", Type: "earthquake", Key: "Source", Time: "DateTime",
	})
	var all []codec.Message
	for err == nil {
		var row input.Row
		if row, err = r.Next(); err == nil {
			all = append(all, row.Message)
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return all, nil
}

// quake is what the demo reads of an earthquake's data.
type quake struct {
	DateTime  string
	Magnitude json.Number
}

func quakeOf(m *codec.Message) (q quake, magnitude float64, err error) {
	if err = json.Unmarshal(m.Data, &q); err == nil {
		magnitude, err = q.Magnitude.Float64()
	}
	return q, magnitude, err
}
