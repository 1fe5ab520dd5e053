package show

import (
	"strings"

	"github.com/rivo/uniseg"
)

// Table lays rows out in columns; the first row is the header line. A column is
// aligned to the right when its name begins with ">", which is not shown.
func Table(rows [][]string) string {
	if len(rows) == 0 {
		return ""
	}
	right := make([]bool, len(rows[0]))
	widths := make([]int, len(rows[0]))
	for i, name := range rows[0] {
		rows[0][i], right[i] = strings.CutPrefix(name, ">")
	}
	for _, row := range rows {
		for i, cell := range row {
			row[i] = Printable(cell) // names of other programs' groups may be anything
			widths[i] = max(widths[i], Width(row[i]))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		for i, cell := range row {
			writeCell(&b, cell, widths[i], right[i], i == len(row)-1)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func writeCell(b *strings.Builder, cell string, width int, right, last bool) {
	pad := strings.Repeat(" ", width-Width(cell))
	if right {
		b.WriteString(pad)
	}
	b.WriteString(cell)
	if last {
		return
	}
	if !right {
		b.WriteString(pad)
	}
	b.WriteString("  ")
}

// Width is how many columns of a terminal s takes.
func Width(s string) int { return uniseg.StringWidth(s) }

func runeWidth(c rune) int { return uniseg.StringWidth(string(c)) }
