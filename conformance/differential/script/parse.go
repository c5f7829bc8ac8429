package script

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// readWait is how long a step waits for frames that should be there: longer than
	// the 3 s that servers wait for a resource version.
	readWait = 8 * time.Second
	// endWait is how long a step waits for the end of a stream.
	endWait = 15 * time.Second
)

// Error says where a script is wrong.
type Error struct {
	Script string
	Line   int
	Reason string
}

// Error is "name:line: reason".
func (e *Error) Error() string { return fmt.Sprintf("%s:%d: %s", e.Script, e.Line, e.Reason) }

// Parse reads a script. Its errors are of type [*Error].
func Parse(name, text string) (Script, error) {
	p := parser{script: Script{Name: name}}
	for i, line := range strings.Split(text, "\n") {
		p.line = i + 1
		if err := p.take(strings.TrimRight(line, " \t\r")); err != nil {
			return Script{}, &Error{Script: name, Line: p.line, Reason: err.Error()}
		}
	}
	if err := p.complete(); err != nil {
		return Script{}, &Error{Script: name, Line: p.line, Reason: err.Error()}
	}
	return p.script, nil
}

type parser struct {
	script Script
	line   int
}

var methods = []string{ //nolint:gochecknoglobals // a compiled table
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
	http.MethodDelete, http.MethodOptions, http.MethodTrace, http.MethodConnect,
}

func (p *parser) take(line string) error {
	switch {
	case line == "" || strings.HasPrefix(line, "#"):
		return nil
	case line[0] == ' ' || line[0] == '\t':
		return p.below(strings.TrimLeft(line, " \t"))
	case line == "full":
		if len(p.script.Cases) > 0 {
			return fmt.Errorf("full is for the top of the file")
		}
		p.script.Full = true
		return nil
	}
	if name, ok := strings.CutPrefix(line, "case "); ok {
		return p.begin(strings.TrimSpace(name))
	}
	if len(p.script.Cases) == 0 {
		return fmt.Errorf("a step before the first case")
	}
	step, err := parseStep(line)
	if err != nil {
		return err
	}
	step.Line, step.Text = p.line, line
	c := &p.script.Cases[len(p.script.Cases)-1]
	c.Steps = append(c.Steps, step)
	return nil
}

func (p *parser) begin(name string) error {
	if slices.ContainsFunc(p.script.Cases, func(c Case) bool { return c.Name == name }) {
		return fmt.Errorf("a second case %q", name)
	}
	if strings.Contains(name, "|") {
		return fmt.Errorf("a | in the name of a case is for the table of differences")
	}
	if err := p.complete(); err != nil && len(p.script.Cases) > 0 {
		return err
	}
	p.script.Cases = append(p.script.Cases, Case{Name: name})
	return nil
}

func (p *parser) complete() error {
	if len(p.script.Cases) == 0 {
		return fmt.Errorf("no case")
	}
	if last := p.script.Cases[len(p.script.Cases)-1]; len(last.Steps) == 0 {
		return fmt.Errorf("case %q has no step", last.Name)
	}
	return nil
}

// below takes an indented line, which belongs to the step above it.
func (p *parser) below(line string) error {
	if len(p.script.Cases) == 0 || len(p.script.Cases[len(p.script.Cases)-1].Steps) == 0 {
		return fmt.Errorf("an indented line without a step above it")
	}
	steps := p.script.Cases[len(p.script.Cases)-1].Steps
	step := &steps[len(steps)-1]
	switch step.Verb {
	case Request, Watch, Socket, Await:
	case Capture, Keep, Edit, Compare, Ping, Read, Quiet, End, Close, Compact, Forget, Restart, Crash, Pause, Join:
		return fmt.Errorf("a header or body below a step that sends none")
	}
	if step.Body != "" || strings.ContainsRune("{[<$", rune(line[0])) {
		if step.Verb != Request && step.Verb != Await {
			return fmt.Errorf("a body below a step that sends none")
		}
		if step.Body != "" {
			step.Body += "\n"
		}
		step.Body += line
		return nil
	}
	name, value, ok := strings.Cut(line, ":")
	if !ok || !headerName.MatchString(name) {
		return fmt.Errorf("%q is neither a header nor a body", line)
	}
	step.Header = append(step.Header, Field{Name: name, Value: strings.TrimSpace(value)})
	return nil
}

var (
	headerName   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9.%-]*$`)
	variableName = regexp.MustCompile(`^[a-z][a-z0-9]*$`)
)

func parseStep(line string) (Step, error) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return Step{}, errors.New("a request is missing")
	}
	switch {
	case words[0] == "&" || words[0] == "~":
		step, err := parseStep(strings.TrimSpace(line[1:]))
		if err == nil && step.Verb != Request {
			err = fmt.Errorf("%s is for requests", words[0])
		}
		step.Later, step.CodeOnly = step.Later || words[0] == "&", step.CodeOnly || words[0] == "~"
		return step, err
	case slices.Contains(methods, words[0]):
		if len(words) != 2 {
			return Step{}, fmt.Errorf("want METHOD path")
		}
		return Step{Verb: Request, Method: words[0], Path: words[1]}, nil
	}
	if f, ok := short[words[0]]; ok {
		return f(line, words)
	}
	f, ok := forms[words[0]]
	if !ok {
		return Step{}, fmt.Errorf("unknown word %q", words[0])
	}
	return f.parse(words)
}

// short are the words that stand for requests, and edit.
var short = map[string]func(line string, words []string) (Step, error){ //nolint:gochecknoglobals // a compiled table
	"create": write, "patch": write, "delete": write, "edit": edit,
}

// edit reads "edit x {…}".
func edit(line string, words []string) (Step, error) {
	at := strings.IndexByte(line, '{')
	if len(words) < 3 || at < 0 || !variableName.MatchString(words[1]) || strings.TrimSpace(line[:at]) != "edit "+words[1] {
		return Step{}, fmt.Errorf("want edit x {…}")
	}
	return Step{Verb: Edit, Name: words[1], Body: line[at:]}, nil
}

var kinds = map[string]string{"foos": "Foo", "bars": "Bar"} //nolint:gochecknoglobals // a compiled table

func write(line string, words []string) (Step, error) {
	if len(words) < 3 || kinds[words[1]] == "" {
		return Step{}, fmt.Errorf("want %s foos ns/name or bars name", words[0])
	}
	path := "$api/" + words[1]
	namespace, name, namespaced := strings.Cut(words[2], "/")
	if namespaced != (words[1] == "foos") {
		return Step{}, fmt.Errorf("foos have a namespace, bars have none")
	}
	if namespaced {
		path = "$api/namespaces/" + namespace + "/foos"
	} else {
		name = namespace
	}
	object := map[string]any{}
	if i := strings.IndexByte(line, '{'); i >= 0 {
		if err := json.Unmarshal([]byte(line[i:]), &object); err != nil {
			return Step{}, fmt.Errorf("the object: %w", err)
		}
	} else if len(words) > 3 {
		return Step{}, fmt.Errorf("%q is not an object", words[3])
	}
	step := Step{Verb: Request, Path: path + "/" + name}
	switch words[0] {
	case "delete":
		step.Method = http.MethodDelete
		return step, nil
	case "patch":
		step.Method = http.MethodPatch
		step.Header = []Field{{Name: "Content-Type", Value: "application/merge-patch+json"}}
	case "create":
		step.Method, step.Path = http.MethodPost, path
		metadata, ok := object["metadata"].(map[string]any)
		if !ok {
			metadata = map[string]any{}
		}
		metadata["name"] = name
		object["metadata"], object["kind"], object["apiVersion"] = metadata, kinds[words[1]], "$group/v1"
	}
	body, err := json.Marshal(object)
	step.Body = string(body)
	return step, err
}

// form is what may follow a word: a name, a path or member, a number, a duration,
// the last of which may be left out.
type form struct {
	verb  Verb
	wants string // n: name, p: path, m: member, c: count or code, d: duration, D: duration or nothing
	wait  time.Duration
}

var forms = map[string]form{ //nolint:gochecknoglobals // a compiled table
	"capture": {verb: Capture, wants: "nm"}, "keep": {verb: Keep, wants: "nm"}, "compare": {verb: Compare, wants: "nm"},
	"watch": {verb: Watch, wants: "np"}, "socket": {verb: Socket, wants: "np"}, "ping": {
		verb: Ping, wants: "n",
		wait: readWait,
	},
	"read": {verb: Read, wants: "ncD", wait: readWait}, "quiet": {verb: Quiet, wants: "nd"},
	"end": {verb: End, wants: "nD", wait: endWait}, "close": {verb: Close, wants: "n"},
	"await": {verb: Await, wants: "cpD", wait: endWait}, "pause": {verb: Pause, wants: "d"},
	"compact": {verb: Compact}, "forget": {verb: Forget}, "restart": {verb: Restart}, "crash": {verb: Crash},
	"join": {verb: Join},
}

func (f form) parse(words []string) (Step, error) {
	step := Step{Verb: f.verb, Wait: f.wait, Method: http.MethodGet}
	args := words[1:]
	if f.verb == Await && len(args) > 2 && slices.Contains(methods, args[1]) {
		step.Method, args = args[1], slices.Delete(slices.Clone(args), 1, 2)
	}
	for _, want := range f.wants {
		if len(args) == 0 && want == 'D' {
			break
		}
		if len(args) == 0 {
			return Step{}, fmt.Errorf("%s wants more words", words[0])
		}
		var err error
		switch want {
		case 'n':
			step.Name = args[0]
			if !variableName.MatchString(args[0]) {
				err = fmt.Errorf("%q is not a name", args[0])
			}
		case 'p':
			step.Path = args[0]
		case 'm':
			step.Member = args[0]
			_, err = splitMember(args[0])
		case 'c':
			step.Frames, err = strconv.Atoi(args[0])
			step.Code = step.Frames
			if err == nil && step.Frames < 1 {
				err = fmt.Errorf("%d is not a number of things", step.Frames)
			}
		case 'd', 'D':
			step.Wait, err = time.ParseDuration(args[0])
			if err == nil && step.Wait <= 0 {
				err = fmt.Errorf("%v is no time to wait", step.Wait)
			}
		}
		if err != nil {
			return Step{}, err
		}
		args = args[1:]
	}
	if len(args) > 0 {
		return Step{}, fmt.Errorf("%s does not want %q", words[0], args[0])
	}
	return step, nil
}
