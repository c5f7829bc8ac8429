package past

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/internal/past"
	"github.com/gapless-io/gapless/kube"
)

// getFlags are those of gapless get.
type getFlags struct {
	selecting

	at, rv string
	clean  bool
	output string
}

func (p Program) get() *cobra.Command {
	var f getFlags
	cmd := &cobra.Command{
		Use:   "get RESOURCE[/NAME] --at TIME",
		Short: "Print objects as they were",
		Long: `Print an object, or all objects of a resource, as they were at a time, or at a resourceVersion.

The server must be gapless serve, one of its replicas, or a gapless relay: others answer with the present, which is
refused. Secrets are printed as they are, so that they can be put back.

Times are read in the local zone.`,
		Example: `  gapless get pods -n shop --at 14:05

  # put back what was deleted, or changed by mistake
  gapless get deployments/web --at 2h --clean -o yaml | kubectl apply -f -`,
		Args: func(_ *cobra.Command, args []string) error {
			_, err := parseNamed(args)
			return err
		},
	}
	f.addTo(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.at, "at", "", "as it was at: 14:05, 2h (ago), 2026-11-25 14:05, or a time in RFC 3339")
	flags.StringVar(&f.rv, "rv", "", "as it was at this resourceVersion")
	flags.BoolVar(&f.clean, "clean", false,
		"leave out what servers and controllers write, such as uid, resourceVersion and status, for kubectl apply")
	flags.StringVarP(&f.output, "output", "o", "", "output format: wide, json, yaml or name (default a table)")
	connect := p.Connect(cmd)
	cmd.ValidArgsFunction = p.completing(connect)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		m, err := p.readGet(cmd, &f)
		if err != nil {
			return err
		}
		s, err := p.open(connect)
		if err != nil {
			return err
		}
		defer s.client.CloseIdle()
		n, _ := parseNamed(args) // Args has
		t, err := s.find(cmd.Context(), n, &f.selecting)
		if err != nil {
			return fmt.Errorf("get %s: %w", args[0], err)
		}
		g := getting{program: p, flags: &f, session: s, target: t, at: m}
		if err := g.run(cmd.Context()); err != nil {
			return fmt.Errorf("get %s: %w", t, explained(p, s, t, err))
		}
		return nil
	}
	return cmd
}

// readGet reads the flags. Errors: usage errors.
func (p Program) readGet(cmd *cobra.Command, f *getFlags) (m past.Moment, err error) {
	if err := p.output(f.output, "wide", "json", "yaml", "name"); err != nil {
		return m, err
	}
	if err := f.check(cmd); err != nil {
		return m, p.Usage(err)
	}
	switch {
	case f.at != "" && f.rv != "":
		return m, p.Usage(errors.New("give one of --at and --rv"))
	case f.clean && f.output != "json" && f.output != "yaml":
		return m, p.Usage(errors.New("--clean is for -o yaml and -o json"))
	case f.rv != "":
		if m.RV, err = kube.ParseResourceVersion(f.rv); err != nil || m.RV == 0 {
			return m, p.Usage(fmt.Errorf("--rv %q: want a resourceVersion, a number like 1000000123", f.rv))
		}
		return m, nil
	case f.at == "":
		return m, p.Usage(errors.New("give --at, a time, or --rv, a resourceVersion; kubectl get has the present"))
	}
	if m.At, err = past.ParseTime(f.at, p.Now()); err != nil {
		return m, p.Usage(fmt.Errorf("--at %w", err))
	}
	return m, nil
}

// getting prints objects at a moment.
type getting struct {
	program Program
	flags   *getFlags
	session *session
	target  target
	at      past.Moment
}

func (g *getting) run(ctx context.Context) error {
	switch {
	case g.flags.output == "" || g.flags.output == "wide":
		err := g.table(ctx)
		if errors.Is(err, errNoPast) {
			return fmt.Errorf("%w. If it is a relay, use -o yaml or -o name: it passes on tables whose columns it does not know",
				err)
		}
		return err
	case g.target.name != "":
		return g.one(ctx)
	}
	return g.all(ctx)
}

// one prints one object.
func (g *getting) one(ctx context.Context) error {
	resp, err := g.session.object(ctx, g.target, g.at, "application/json")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	text, err := g.text(raw)
	if err != nil {
		return err
	}
	_, err = g.program.Out.Write(text)
	return err
}

// text is one object as it is printed.
func (g *getting) text(raw []byte) ([]byte, error) {
	tree, err := past.Decode(raw)
	if err != nil {
		return nil, err
	}
	g.target.typed(tree)
	if g.flags.clean {
		tree = past.Clean(tree)
	}
	switch g.flags.output {
	case "name":
		kind := strings.ToLower(g.target.resource.Kind)
		if group := g.target.resource.Group; group != "" {
			kind += "." + group
		}
		return fmt.Appendf(nil, "%s/%s\n", kind, past.Text(tree, "metadata", "name")), nil
	case "json":
		text, err := json.MarshalIndent(tree, "", "    ")
		return append(text, '\n'), err
	}
	return past.YAML(tree)
}

// all prints the objects of a list, as kubectl get does, page by page.
func (g *getting) all(ctx context.Context) error {
	out := g.program.Out
	begin, between, end, indent := "", "", "", ""
	switch g.flags.output {
	case "json":
		begin, between = "{\n    \"apiVersion\": \"v1\",\n    \"items\": [", ","
		end, indent = "\n    ],\n    \"kind\": \"List\",\n    \"metadata\": {}\n}\n", "        "
	case "yaml":
		begin, end, indent = "apiVersion: v1\nitems:\n", "kind: List\nmetadata: {}\n", "  "
	}
	n := 0
	write := func(raw []byte) error {
		text, err := g.text(raw)
		if err != nil {
			return err
		}
		lead := between
		if n == 0 {
			lead = begin
		}
		n++
		_, err = io.WriteString(out, lead+item(g.flags.output, indent, string(text)))
		return err
	}
	o := metav1.ListOptions{LabelSelector: g.target.labels, FieldSelector: g.target.fields, Limit: pageSize}
	for c := g.session.when(g.at).As(client.Form{Typed: true}); ; {
		meta, err := listPage(ctx, c, g.target.of, o, write)
		if err != nil {
			return err
		}
		if o.Continue = meta.Continue; o.Continue == "" {
			break
		}
	}
	if n == 0 {
		end = strings.ReplaceAll(begin, "items:\n", "items: []\n") + end
	}
	_, err := io.WriteString(out, end)
	return err
}

// item is an object as an item of a list in an output format.
func item(output, indent, text string) string {
	switch output {
	case "json":
		return "\n" + indent + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+indent)
	case "yaml":
		text = strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+indent)
		return "- " + strings.ReplaceAll(text, "\n"+indent+"\n", "\n\n") + "\n"
	}
	return text
}

// serverTable has the fields of metav1.Table that are needed.
type serverTable struct {
	Kind     string                         `json:"kind"`
	Metadata metav1.ListMeta                `json:"metadata"`
	Columns  []metav1.TableColumnDefinition `json:"columnDefinitions"`
	Rows     []struct {
		Cells  []any `json:"cells"`
		Object struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
		} `json:"object"`
	} `json:"rows"`
}

// table prints the table that the server makes, as it makes it for kubectl get.
func (g *getting) table(ctx context.Context) error {
	lines := table{out: g.program.Out}
	for token := ""; ; {
		page, err := g.rows(ctx, token)
		if err != nil {
			return err
		}
		namespaces := g.flags.allNamespaces && g.target.resource.Namespaced
		if len(lines.widths) == 0 && len(page.Rows) > 0 {
			lines.add(g.cells(namespaces, "NAMESPACE", page.Columns, func(i int) string {
				return strings.ToUpper(page.Columns[i].Name)
			})...)
		}
		for _, r := range page.Rows {
			lines.add(g.cells(namespaces, r.Object.Metadata.Namespace, page.Columns, func(i int) string {
				if i < len(r.Cells) {
					return cell(r.Cells[i])
				}
				return ""
			})...)
		}
		if err := lines.flush(); err != nil {
			return err
		}
		if token = page.Metadata.Continue; token == "" {
			break
		}
	}
	if len(lines.widths) == 0 {
		g.program.notef("there were no %s then", g.target)
	}
	return nil
}

// cells are the cells of a line.
func (g *getting) cells(namespaces bool, namespace string, columns []metav1.TableColumnDefinition,
	text func(int) string,
) []string {
	var all []string
	if namespaces {
		all = append(all, namespace)
	}
	for i, c := range columns {
		if c.Priority == 0 || g.flags.output == "wide" {
			all = append(all, text(i))
		}
	}
	return all
}

// cell is a value of a table.
func cell(v any) string {
	switch v := v.(type) {
	case nil:
		return "<none>"
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return past.Printable(fmt.Sprint(v))
}

// rows gets a page of the server's table, or that of one object.
func (g *getting) rows(ctx context.Context, token string) (*serverTable, error) {
	const accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
	resp, err := g.answer(ctx, token, accept)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var out serverTable
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		return nil, fmt.Errorf("read a table: %w", err)
	}
	if out.Kind != "Table" {
		return nil, fmt.Errorf("the server sent a %s instead of a table: use -o yaml, json or name", out.Kind)
	}
	return &out, nil
}

// answer asks for a page of objects, or for one object, in a form. The caller closes the body.
func (g *getting) answer(ctx context.Context, token, accept string) (*http.Response, error) {
	if g.target.name != "" {
		return g.session.object(ctx, g.target, g.at, accept)
	}
	q := url.Values{"limit": {strconv.Itoa(pageSize)}}
	g.target.narrow(q)
	if token != "" {
		q.Set("continue", token)
	}
	return g.session.when(g.at).Do(ctx, client.Request{Path: g.target.path(), Query: q, Accept: accept})
}
