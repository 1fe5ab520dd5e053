package report

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/echomq/pipeline/benchmarks/bench"
)

// GrowthTables are of what works cost where there is more and more: a table for each thing that grows, in Markdown.
func (p *page) GrowthTables() string {
	var b strings.Builder
	of := map[string][]bench.Point{} // a work, from the least size on
	for _, one := range p.Growth.Points {
		of[one.Work] = append(of[one.Work], one)
	}
	axis := ""
	for _, one := range p.Growth.Points {
		row := of[one.Work]
		if delete(of, one.Work); len(row) == 0 {
			continue
		}
		if one.Axis != axis {
			axis = one.Axis
			fmt.Fprintf(&b, "\n| %s |", axis)
			for _, at := range row {
				fmt.Fprintf(&b, " %s |", commas(strconv.Itoa(at.At)))
			}
			fmt.Fprintf(&b, " growth | bytes each |\n|%s\n", strings.Repeat("---|", len(row)+3))
		}
		fmt.Fprintf(&b, "| `%s` |", one.Work)
		for _, at := range row {
			fmt.Fprintf(&b, " %s |", figure(at.Server))
		}
		last, bytes := row[len(row)-1], ""
		if last.ServerBytes != nil {
			bytes = figure(*last.ServerBytes)
		}
		fmt.Fprintf(&b, " %s | %s |\n", Spread{last.Growth, last.GrowthMin, last.GrowthMax}, bytes)
	}
	return b.String()
}
