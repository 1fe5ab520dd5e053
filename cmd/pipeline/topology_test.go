package main_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/tiertest"
)

const shopYAML = `topology: NAME
scopes:
  NAME: {streams: {in: {external: true, groups: {mailer: {}}}, out: {}}}
stages:
  pass: {from: NAME/in, to: NAME/out, filter: "true"}
`

// TestTopologyValidate: each problem is a line with its place.
func TestTopologyValidate(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	p.file("good.yaml", strings.ReplaceAll(shopYAML, "NAME", "shop"))
	require.Equal(t, "good.yaml is a topology: shop, with 2 streams, 0 queues, 0 sources, 1 stage and 0 sinks\n", p.ok("topology", "validate", "good.yaml", "--output", "text").out)
	p.file("bad.yaml", "topology: shop\nscope: {}\nstages: {a: {from: s/in, to: s/out, filter: 'tru'}}\n")
	r := p.run("topology", "validate", "bad.yaml", "--output", "text")
	require.Equal(t, 1, r.code)
	require.Equal(t, []string{
		"bad.yaml:2:1: scope: there is no such field; did you mean scopes?",
		"bad.yaml:3:20: stages.a.from: there is no stream s/in; declare it: scopes: {s: {streams: {in: {}}}}",
		"bad.yaml:3:30: stages.a.to: there is no stream s/out; declare it: scopes: {s: {streams: {out: {}}}}",
	}, r.lines()[:3])
	require.Contains(t, r.lines()[3], "bad.yaml:3:46: stages.a.filter: unknown name tru")
	require.Contains(t, r.errOut, "pipeline: bad.yaml has 4 problems")
	r = p.run("topology", "validate", "bad.yaml")
	require.Equal(t, `{"file":"bad.yaml","line":2,"column":1,"path":"scope","what":"there is no such field","do":"did you mean scopes?"}`, r.lines()[0])
	require.Equal(t, 1, p.run("topology", "plan", "bad.yaml").code)
	require.Equal(t, 3, p.run("topology", "validate", "none.yaml").code)
}

// TestTopologyApply: a plan is shown, applied, and shown as empty; what goes is asked about, and named.
func TestTopologyApply(t *testing.T) {
	t.Parallel()
	p, own := onShared(t), tiertest.Scope(t)
	text := strings.ReplaceAll(shopYAML, "NAME", own)
	p.file("shop.yaml", text)
	plan := "+ stream NAME/in\n+ stream NAME/out\n+ group mailer of NAME/in\n+ cursor pass of NAME/in: when what reads by it runs for the first time\n"
	plan = strings.ReplaceAll(plan, "NAME", own)
	r := p.run("topology", "plan", "shop.yaml", "--output", "text")
	require.Equal(t, 2, r.code, r.errOut)
	require.Equal(t, plan, r.out)
	require.NotContains(t, r.errOut, "differs")
	require.Contains(t, p.ok("topology", "drift", "shop.yaml").errOut, "nothing to compare: topology "+own+" has declared nothing here; 'pipeline topology apply shop.yaml' does")
	require.Equal(t, plan, p.ok("topology", "apply", "shop.yaml", "--dry-run", "--output", "text").out)
	r = p.ok("topology", "apply", "shop.yaml", "--output", "text")
	require.Equal(t, plan, r.out)
	require.Contains(t, r.errOut, own+": 4 made")
	require.Empty(t, p.ok("topology", "plan", "shop.yaml").out)
	r = p.ok("topology", "drift", "shop.yaml")
	require.Empty(t, r.out+r.errOut)
	require.Contains(t, p.ok("topology", "apply", "shop.yaml").errOut, "nothing to do")

	p.ok("group", "delete", own+"/in", "--group", "mailer", "--yes")
	r = p.run("topology", "drift", "shop.yaml")
	require.Equal(t, 2, r.code)
	require.Equal(t, `{"verb":"destroy","kind":"group","of":"`+own+`/in","name":"mailer"}`+"\n", r.out)

	p.file("shop.yaml", strings.NewReplacer(", groups: {mailer: {}}", "", "in: {external", "in: {brand: XYZ, external").Replace(text))
	r = p.run("topology", "apply", "shop.yaml", "--yes", "--output", "text")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.out, "! stream "+own+"/in: brand XYZ, was ")
	require.Contains(t, r.errOut, "the plan refuses changes, so nothing was applied")
	p.file("shop.yaml", strings.Replace(text, ", groups: {mailer: {}}", "", 1))
	r = p.run("topology", "apply", "shop.yaml")
	require.Equal(t, 2, r.code, "nobody is asked: it was called wrongly")
	require.Contains(t, r.errOut, "there is no terminal to ask on: give --yes")
	require.Equal(t, "- group mailer of "+own+"/in: it is gone already\n", p.ok("topology", "apply", "shop.yaml", "--yes", "--output", "text").out)

	require.Equal(t, "- stream "+own+"/out\n", p.ok("topology", "destroy", "shop.yaml", "--only", "stream "+own+"/out", "--dry-run", "--output", "text").out)
	r = p.onTerminal(own+"\n", "topology", "destroy", "shop.yaml")
	require.Equal(t, 0, r.code, r.errOut)
	require.Contains(t, p.ok("topology", "destroy", "shop.yaml", "--yes").errOut, "nothing to destroy")

	for _, args := range []string{"topology plan", "topology plan a b", "topology drift shop.yaml --nope", "topology plan shop.yaml --url http://x", "topology plan shop.yaml --output xml"} {
		require.Equal(t, 1, p.run(strings.Fields(args)...).code, "2 is a plan that is not empty: %s", args)
	}
}

// TestTopologyGraph: the picture comes without a server, and with --live from it; the rights are lines for another program.
func TestTopologyGraph(t *testing.T) {
	t.Parallel()
	p, own := onShared(t), tiertest.Scope(t)
	p.file("shop.yaml", strings.ReplaceAll(shopYAML, "NAME", own))
	require.Contains(t, p.ok("topology", "graph", "shop.yaml").out, "flowchart LR\n")
	require.Contains(t, p.ok("topology", "graph", "shop.yaml", "--format", "dot").out, "digraph ")
	require.Contains(t, p.ok("topology", "graph", "shop.yaml", "--format", "svg").out, "</svg>\n")
	require.Contains(t, p.ok("topology", "graph", "shop.yaml", "--live", "--over", "1ms").out, own+"/in<br>not there")
	acl := p.ok("topology", "acl", "shop.yaml").lines()
	require.Len(t, acl, 3)
	require.Regexp(t, `^ACL SETUSER `+own+`.stage.pass reset on %R~\{emq\}:version .* \+xread .*\+zscan$`, acl[0])
	require.Contains(t, p.ok("topology", "acl", "shop.yaml", "--output", "json", "--cluster").lines()[1], `"name":"`+own+`.in.mailer","rules":["%R~{emq}:version",`)
}

// TestTopologyTest: cases pass or fail, with what differs and an exit code for CI; those of the examples pass. No server is asked.
func TestTopologyTest(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	p.file("shop.yaml", strings.ReplaceAll(shopYAML, "NAME", "shop"))
	text := "document: shop.yaml\ncases:\n  all pass:\n    given: {shop/in: [{key: ann, data: {n: 1}}]}\n    expect: {shop/out: [{key: ann, data: {n: 1}}]}\n"
	p.file("shop_test.yaml", text)
	require.Equal(t, "ok   all pass\n", p.ok("topology", "test", "shop_test.yaml", "--output", "text", "--url", "redis://127.0.0.1:1").out)
	p.file("shop_test.yaml", text+"  none:\n    given: {shop/in: [{key: bob, data: {n: 2}}]}\n    expect: {shop/out: [{data: {n: 3}}]}\n")
	r := p.run("topology", "test", "shop_test.yaml", "--output", "text")
	require.Equal(t, 1, r.code)
	require.Equal(t, `ok   all pass
FAIL none
  stream shop/out (- expected, + came)
    - {"data":{"n":3}}
    + {"data":{"n":2}}
`, r.out)
	require.Contains(t, r.errOut, "1 of 2 cases failed")
	require.Equal(t, `{"case":"none","passed":false,"mismatches":[{"where":"stream shop/out","lines":[{"sign":"-","text":"{\"data\":{\"n\":3}}"},{"sign":"+","text":"{\"data\":{\"n\":2}}"}]}]}`, p.run("topology", "test", "shop_test.yaml").lines()[1])
	p.file("shop_test.yaml", text+"    expekt: {}\n")
	r = p.run("topology", "test", "shop_test.yaml", "--output", "text")
	require.Equal(t, 1, r.code)
	require.Equal(t, "shop_test.yaml:6:5: cases.all pass.expekt: there is no such field; did you mean expect?\n", r.out)
	require.Equal(t, 3, p.run("topology", "test", "none.yaml").code)

	examples, err := filepath.Glob("../../examples/*/*_test.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, examples)
	for _, name := range examples {
		name, err := filepath.Abs(name)
		require.NoError(t, err)
		p.ok("topology", "test", name)
	}
}
