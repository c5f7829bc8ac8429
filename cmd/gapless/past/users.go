package past

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gapless-io/gapless/internal/past"
	"github.com/gapless-io/gapless/kube"
)

// users are who made changes, by the resourceVersions of the changes.
type users struct {
	one     map[kube.ResourceVersion]user
	several []several // sorted
	// unnamed is how many changes are known only by their number.
	unnamed uint64
}

// several are changes in a row that one request made.
type several struct {
	from, to kube.ResourceVersion
	user
}

// of is the user of the change that made a resourceVersion at a time: none, or one.
func (u *users) of(rv kube.ResourceVersion, at time.Time) []string {
	found, known := u.one[rv]
	if !known {
		// Each change is one of one request: the ranges of a log have nothing in common.
		i, _ := slices.BinarySearchFunc(u.several, rv, func(s several, rv kube.ResourceVersion) int {
			return cmp.Compare(s.to, rv)
		})
		if i == len(u.several) || u.several[i].from > rv {
			return nil
		}
		found = u.several[i].user
	}
	if !found.made(at) {
		return nil
	}
	return []string{found.name}
}

// byWhom names the users, if the audit log has them, and who made a change by the managed fields.
func byWhom(users []string, by []past.Author) string {
	if len(users) == 0 {
		return past.Names(by)
	}
	return strings.TrimSuffix(past.Printable(strings.Join(users, ", "))+": "+past.Names(by), ": ")
}

// user is who made a change. sent is when, if that is a guess: the answer to a request has a resourceVersion, which a
// request that changed nothing has of an earlier change.
type user struct {
	name string
	sent time.Time
}

// made reports whether it can be the user of a change at a time: clocks differ, and a relay sees a change later.
func (u user) made(at time.Time) bool {
	const later = 5 * time.Second
	return u.sent.IsZero() || !u.sent.After(at.Add(later))
}

// addAuditLog adds the flag for the file that usersIn reads.
func addAuditLog(flags *pflag.FlagSet, path *string) {
	flags.StringVar(path, "audit-log", "", "file with audit events of the server, in JSON, which say which user it was")
}

// usersIn reads a file with the events of the audit log of a server, for the changes of a resource.
// Without a file it knows no user.
func usersIn(path string, t target) (users, error) {
	if path == "" {
		return users{}, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return users{}, fmt.Errorf("read --audit-log: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	found, err := readUsers(f, t)
	if err != nil {
		return users{}, fmt.Errorf("read --audit-log %s: %w", path, err)
	}
	return found, nil
}

// event has the fields of an audit event that are needed.
type event struct {
	Kind       string `json:"kind"`
	Stage      string `json:"stage"`
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	Impersonated *struct {
		Username string `json:"username"`
	} `json:"impersonatedUser"`
	Object *struct {
		Resource string `json:"resource"`
		Group    string `json:"apiGroup"`
	} `json:"objectRef"`
	Response struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	} `json:"responseObject"`
	Annotations map[string]string `json:"annotations"`
	Received    time.Time         `json:"requestReceivedTimestamp"`
}

// changeKey is the annotation with the resourceVersions of changes, like "7" or "7-9,12" (docs/audit.md).
const changeKey = "gapless.io/resource-version"

// readUsers reads events, one a line. The last line may be incomplete: it is being written.
func readUsers(in io.Reader, t target) (users, error) {
	found := users{one: map[kube.ResourceVersion]user{}}
	lines := bufio.NewReader(in)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			slices.SortFunc(found.several, func(a, b several) int { return cmp.Compare(a.to, b.to) })
			return found, nil
		}
		if err != nil {
			return users{}, err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var e event
		if json.Unmarshal(line, &e) != nil || e.Kind != "Event" {
			return users{}, fmt.Errorf("line %d is no audit event in JSON, which --audit-log-format json makes", n)
		}
		if e.about(t) {
			found.add(&e)
		}
	}
}

// about reports whether an event is the last one of a request, and may say what it changed of a resource.
func (e *event) about(t target) bool {
	if e.Object == nil || e.Stage != "ResponseComplete" && e.Stage != "Panic" {
		return false
	}
	of := e.Object.Resource
	if of == "bindings" && e.Object.Group == "" { // POST …/bindings writes a pod
		of = "pods"
	}
	return of == t.resource.Resource && e.Object.Group == t.resource.Group
}

// add notes the changes that an event names.
func (u *users) add(e *event) {
	by := e.user()
	for part := range strings.SplitSeq(e.changes(), ",") {
		if rest, more := strings.CutPrefix(part, "+"); more {
			n, _ := strconv.ParseUint(rest, 10, 32) // 0: it is not ours
			u.unnamed += n
			continue
		}
		first, last, row := strings.Cut(part, "-")
		from, err := kube.ParseResourceVersion(first)
		if err != nil || from == 0 {
			continue
		}
		if row {
			if to, err := kube.ParseResourceVersion(last); err == nil && to >= from {
				u.several = append(u.several, several{from, to, by})
			}
			continue
		}
		if _, earlier := u.one[from]; !earlier { // a later request that changed nothing has the same one
			u.one[from] = by
		}
	}
}

// changes are the resourceVersions of the changes that were made, as the annotation has them.
func (e *event) changes() string {
	text, annotated := e.Annotations[changeKey]
	if annotated {
		return text
	}
	// As in the log of kube-apiserver, behind a relay.
	switch e.Verb {
	case "create", "update", "patch", "delete":
		if e.Stage == "ResponseComplete" && !strings.Contains(e.RequestURI, "dryRun=") {
			return e.Response.Metadata.ResourceVersion
		}
	}
	return ""
}

// user is the user that the request ran as, and, if that is another one, who sent it.
func (e *event) user() user {
	of := user{name: e.User.Username}
	if e.Impersonated != nil {
		of.name = e.Impersonated.Username + " (" + e.User.Username + ")"
	}
	if _, annotated := e.Annotations[changeKey]; !annotated {
		of.sent = e.Received
	}
	return of
}
