package bench

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// GrowthChart is a picture of points, in SVG: a panel for each axis, whose sizes stand on a logarithmic scale, and in it a line for
// each work, the server's CPU time for a message in ratio to that at the least size. What does not grow is a flat line at 1.
func GrowthChart(points []Point) string {
	const (
		left, wide, right = 44.0, 420.0, 230.0
		top, high, gap    = 76.0, 130.0, 62.0
		width             = left + wide + right
	)
	axes := byAxis(points)
	height := top + float64(len(axes))*(high+gap) - gap/2
	var b strings.Builder
	title := "The server's CPU time for a message, over that at the least size"
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img"><title>%s</title>`+"\n%s\n", width, height, width, height, title, growthStyle)
	fmt.Fprintf(&b, `<text class="h" x="16" y="24">%s</text>`+"\n", title)
	if len(points) > 0 {
		p := &points[0]
		fmt.Fprintf(&b, `<text class="s" x="16" y="42">%s</text>`+"\n", html.EscapeString(fmt.Sprintf("%s, %s; messages of %d bytes, medians of %d rounds", p.ServerName, p.Durability, p.Size, p.Rounds)))
	}
	for k, axis := range axes {
		y := top + float64(k)*(high+gap)
		c := chartOf(axis, left, y, wide, high)
		fmt.Fprintf(&b, `<text class="n" x="%.0f" y="%.0f">%s</text>`+"\n", left, y-6, html.EscapeString(axis[0].Axis))
		for _, tick := range c.ticks() {
			fmt.Fprintf(&b, `<path class="g" d="M%.0f %.1fH%.0f"/><text class="v e" x="%.0f" y="%.1f">%g</text>`+"\n", left, c.y(tick), left+wide, left-6, c.y(tick)+4, tick)
		}
		told := map[int]bool{}
		for _, p := range axis {
			if !told[p.At] {
				told[p.At] = true
				fmt.Fprintf(&b, `<text class="v m" x="%.1f" y="%.1f">%s</text>`+"\n", c.x(p.At), y+high+15, strings.TrimSuffix(thousands(float64(p.At)), "/s"))
			}
		}
		b.WriteString(c.lines())
	}
	return b.String() + "</svg>\n"
}

const growthStyle = `<style>
text{font:12px ui-sans-serif,system-ui,sans-serif;fill:#1f2933}
.h{font-size:14px;font-weight:600}.n{font-weight:600}.s,.v{font-size:10.5px;fill:#5b6770}.e{text-anchor:end}.m{text-anchor:middle}
path{fill:none;stroke-width:1.6}.g{stroke:#c3ccd5;stroke-width:.6}
.l0{stroke:#3b7dc4}.l1{stroke:#c4573b}.l2{stroke:#3f9a5c}.l3{stroke:#8a5bc0}.l4{stroke:#b08a1e}
@media(prefers-color-scheme:dark){text{fill:#e4e9ee}.s,.v{fill:#aab4be}.g{stroke:#4a535d}}
</style>`

// byAxis keeps the order in which they came.
func byAxis(points []Point) (axes [][]Point) {
	for i := range points {
		if i == 0 || points[i-1].Axis != points[i].Axis {
			axes = append(axes, nil)
		}
		axes[len(axes)-1] = append(axes[len(axes)-1], points[i])
	}
	return axes
}

// growthPanel is where the points of an axis stand.
type growthPanel struct {
	points                []Point
	left, top, wide, high float64
	least, most           float64 // logarithms of the sizes
	highest               float64 // the growth at the top, a whole number
}

func chartOf(points []Point, left, top, wide, high float64) *growthPanel {
	c := &growthPanel{points: points, left: left, top: top, wide: wide, high: high, least: math.Inf(1), highest: 2}
	for i := range points {
		at := math.Log10(float64(points[i].At))
		c.least, c.most, c.highest = min(c.least, at), max(c.most, at), max(c.highest, math.Ceil(points[i].Growth))
	}
	return c
}

func (c *growthPanel) x(at int) float64 {
	return c.left + (math.Log10(float64(at))-c.least)/max(c.most-c.least, 1e-9)*c.wide
}

func (c *growthPanel) y(growth float64) float64 { return c.top + c.high*(1-growth/c.highest) }

func (c *growthPanel) ticks() []float64 {
	if c.highest <= 4 {
		return []float64{0, 1, c.highest}
	}
	return []float64{0, 1, math.Round(c.highest / 2), c.highest}
}

// lines are those of the works, each with its name and what it comes to at its end.
func (c *growthPanel) lines() string {
	var works []string
	of := map[string][]Point{}
	for _, p := range c.points {
		if of[p.Work] == nil {
			works = append(works, p.Work)
		}
		of[p.Work] = append(of[p.Work], p)
	}
	var b strings.Builder
	for k, work := range works {
		list := of[work]
		path := "M"
		for _, p := range list {
			path += fmt.Sprintf("%.1f %.1f ", c.x(p.At), c.y(p.Growth))
		}
		last := &list[len(list)-1]
		y := c.top + 10 + float64(k)*20
		fmt.Fprintf(&b, `<path class="l%d" d="%s"/><path class="l%d" d="M%.0f %.1fh14"/><text class="v" x="%.0f" y="%.1f">%s</text>`+"\n",
			k%5, strings.TrimSpace(path), k%5, c.left+c.wide+12, y-3.5, c.left+c.wide+30, y,
			html.EscapeString(fmt.Sprintf("%s %.2f us, × %.2f", work, last.Server, last.Growth)))
	}
	return b.String()
}
