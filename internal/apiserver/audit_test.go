package apiserver_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/audit"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
)

// auditLog is the events of a server.
type auditLog struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (l *auditLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

// take returns the events since the last call.
func (l *auditLog) take(t testing.TB) (all []auditv1.Event) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range bytes.Lines(l.out.Bytes()) {
		var e auditv1.Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("a line that is no event: %v: %.300q", err, line)
		}
		all = append(all, e)
	}
	l.out.Reset()
	return all
}

// audited returns a server with a policy, and otherwise as change says.
func audited(t testing.TB, rules string, change ...func(*apiserver.Config)) (*testServer, *auditLog) {
	t.Helper()
	p, err := audit.ParsePolicy([]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\n" + rules))
	if err != nil {
		t.Fatalf("parse the policy: %v", err)
	}
	out := &auditLog{}
	log, err := audit.Open(p, audit.Options{Path: "-", Stdout: out})
	if err != nil {
		t.Fatalf("open the audit log: %v", err)
	}
	return openServer(t, func(c *apiserver.Config) {
		c.Audit = log
		for _, change := range change {
			change(c)
		}
	}), out
}

// tell says an event in a line.
func tell(e auditv1.Event) string {
	code := int32(0)
	if e.ResponseStatus != nil {
		code = e.ResponseStatus.Code
	}
	object := ""
	if e.ObjectRef != nil {
		object = fmt.Sprintf(" %s %s/%s", e.ObjectRef.Resource, e.ObjectRef.Namespace, e.ObjectRef.Name)
	}
	return fmt.Sprintf("%s %s %s %s%s %d request=%t response=%t", e.Level, e.Stage, e.User.Username, e.Verb, object, code,
		e.RequestObject != nil, e.ResponseObject != nil)
}

func tellAll(events []auditv1.Event) string {
	var lines []string
	for _, e := range events {
		lines = append(lines, tell(e))
	}
	return strings.Join(lines, "\n")
}

func TestEventsHaveWhatTheirLevelSays(t *testing.T) {
	d, log := audited(t, `
rules:
- {level: None, resources: [{group: "", resources: [namespaces]}]}
- {level: Metadata, verbs: [get]}
- {level: Request, verbs: [create], omitStages: [RequestReceived]}
- {level: RequestResponse, omitStages: [RequestReceived]}`)
	for _, c := range []struct{ method, path, body, want string }{
		{"GET", "/api/v1/namespaces/default", "", ""},
		{
			"POST", configMaps, `{"metadata":{"name":"a"}}`,
			"Request ResponseComplete gapless-admin create configmaps default/a 201 request=true response=false",
		},
		{
			"GET", configMaps + "/a", "",
			"Metadata RequestReceived gapless-admin get configmaps default/a 0 request=false response=false\n" +
				"Metadata ResponseComplete gapless-admin get configmaps default/a 200 request=false response=false",
		},
		{
			"GET", configMaps, "",
			"RequestResponse ResponseComplete gapless-admin list configmaps default/ 200 request=false response=true",
		},
		{
			"POST", configMaps, `{"metadata":`,
			"Request ResponseComplete gapless-admin create configmaps default/ 400 request=false response=false",
		},
		{
			"PUT", configMaps + "/none", `{"metadata":{"name":"other"}}`,
			"RequestResponse ResponseComplete gapless-admin update configmaps default/none 400 request=true response=true",
		},
		{
			"GET", "/apis/no.such/v1/namespaces/x/things", "",
			"RequestResponse ResponseComplete gapless-admin list things x/ 404 request=false response=true",
		},
		{
			"DELETE", configMaps + "/a", "",
			"RequestResponse ResponseComplete gapless-admin delete configmaps default/a 200 request=false response=true",
		},
	} {
		d.do(c.method, c.path, c.body, "Content-Type: application/json")
		if got := tellAll(log.take(t)); got != c.want {
			t.Errorf("%s %s:\n%s\nwant\n%s", c.method, c.path, got, c.want)
		}
	}
}

func TestBodiesAreJSONWhateverTheClientSpeaks(t *testing.T) {
	d, log := audited(t, "omitStages: [RequestReceived]\nrules: [{level: RequestResponse}]")
	for _, headers := range [][]string{
		{"Content-Type: application/yaml", "Accept: " + protobufType},
		{"Content-Type: application/json", "Accept: application/yaml"},
		{"Content-Type: application/json", "Accept-Encoding: gzip"},
	} {
		d.do("POST", configMaps, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"generateName":"x-"},"data":{"a":"b"}}`,
			headers...)
		d.do("GET", configMaps, "", headers...)
		events := log.take(t)
		if len(events) != 2 {
			t.Fatalf("events:\n%s", tellAll(events))
		}
		if at(tree(t, string(events[0].RequestObject.Raw)), "data", "a") != "b" ||
			at(tree(t, string(events[0].ResponseObject.Raw)), "data", "a") != "b" ||
			at(tree(t, string(events[1].ResponseObject.Raw)), "kind") != "ConfigMapList" {
			t.Errorf("%v: bodies %s, %s, %s",
				headers, events[0].RequestObject.Raw, events[0].ResponseObject.Raw, events[1].ResponseObject.Raw)
		}
	}
}

func TestManagedFieldsAreOmittedOnRequest(t *testing.T) {
	d, log := audited(t, "omitManagedFields: true\nomitStages: [RequestReceived]\nrules: [{level: RequestResponse}]")
	d.do("POST", configMaps, `{"metadata":{"name":"a","managedFields":[]}}`, "Content-Type: application/json")
	d.do("GET", configMaps, "")
	for _, e := range log.take(t) {
		if text, err := json.Marshal(e); err != nil || bytes.Contains(text, []byte("managedFields")) {
			t.Errorf("%s", text)
		}
	}
}

func TestWatchIsRecordedWhenItOpensAndWhenItEnds(t *testing.T) {
	for protocol := 1; protocol <= 2; protocol++ {
		d, log := audited(t, "rules: [{level: RequestResponse, verbs: [watch]}]")
		client := d.h1
		if protocol == 2 {
			client = d.h2
		}
		s := d.open(client, configMaps+"?watch=1&timeoutSeconds=1")
		line := " gapless-admin watch configmaps default/ "
		want := "RequestResponse RequestReceived" + line + "0 request=false response=false\nRequestResponse ResponseStarted" +
			line + "200 request=false response=false"
		if got := tellAll(log.take(t)); got != want {
			t.Errorf("HTTP/%d: when it is open:\n%s\nwant\n%s", protocol, got, want)
		}
		s.end()
		d.api.Drain()
		if err := d.api.Wait(t.Context()); err != nil {
			t.Fatalf("wait api: %v", err)
		}
		if got, want := tellAll(log.take(t)), "RequestResponse ResponseComplete"+line+
			"200 request=false response=false"; got != want {
			t.Errorf("HTTP/%d: at the end:\n%s\nwant\n%s", protocol, got, want)
		}
	}
}

func TestRefusedRequestsAreRecorded(t *testing.T) {
	d, log := audited(t, "rules: [{level: Metadata}]")
	stranger := d.client(2)
	if a := d.by(stranger, "GET", configMaps, ""); a.StatusCode != http.StatusUnauthorized {
		t.Fatal(a.Status)
	}
	if got, want := tellAll(
		log.take(t)), "Metadata ResponseStarted  list configmaps default/ 401 request=false response=false"; got != want {
		t.Errorf("without credentials:\n%s\nwant\n%s", got, want)
	}
	d.by(stranger, "GET", "/version", "")
	if got, want := tellAll(
		log.take(
			t)),
		"Metadata RequestReceived system:anonymous get 0 request=false response=false\nMetadata ResponseComplete "+
			"system:anonymous get 200 request=false response=false"; got != want {
		t.Errorf("an open path:\n%s\nwant\n%s", got, want)
	}
	d.do("GET", configMaps+"?watch=1&resourceVersion=x", "")
	if got, want := tellAll(log.take(t)), "ResponseStarted gapless-admin watch configmaps default/ 400"; !strings.Contains(got,
		want) {
		t.Errorf("a watch that is not opened:\n%s\nwant %s", got, want)
	}
}

// What clients send cannot begin a line or an event.
func TestLinesAreEventsWhateverClientsSend(t *testing.T) {
	d, log := audited(t, "omitStages: [RequestReceived]\nrules: [{level: RequestResponse}]")
	long := strings.Repeat("a", 900<<10)
	a := d.by(d.h1, "GET", configMaps+"?x=%0a%7b%22auditID%22:%22forged%22%7d&y="+long, "", "User-Agent: b\u2028\"}{"+long[:2000],
		"X-Forwarded-For: 10.0.0.1, nobody, 10.0.0.2", "Audit-Id: \"},{"+long[:1000])
	events := log.take(t)
	if len(events) != 1 {
		t.Fatalf("%d events", len(events))
	}
	e := events[0]
	if string(e.AuditID) != a.Header.Get("Audit-Id") || len(e.AuditID) != 64 || !strings.HasSuffix(e.UserAgent, "...TRUNCATED") ||
		len(e.RequestURI) < 900<<10 {
		t.Errorf("id %.100q, agent of %d bytes, URI of %d", e.AuditID, len(e.UserAgent), len(e.RequestURI))
	}
	if strings.Join(e.SourceIPs, " ") != "10.0.0.1 10.0.0.2 127.0.0.1" {
		t.Errorf("sources %v", e.SourceIPs)
	}
	d.do("POST", configMaps, "{\n\"metadata\":{\"name\":\"a\"},\n\"data\":{\"x\":\"\\n{}\"}}", "Content-Type: application/json")
	d.do("POST", configMaps, "\n{}\n{\"auditID\":\"forged\"}", "Content-Type: application/json")
	d.do("POST", configMaps, `{"metadata":{"name":"b"},"data":{"x":"`+strings.Repeat("b", 3<<20-100)+`"}}`,
		"Content-Type: application/json")
	if events := log.take(t); len(events) != 3 || events[1].RequestObject != nil || len(events[2].RequestObject.Raw) < 3<<20-200 {
		t.Errorf("events:\n%.2000s", tellAll(events))
	}
}

func TestReasonsOfAuthorizersAndAnnotationsArrive(t *testing.T) {
	d, log := audited(t, "omitStages: [RequestReceived]\nrules: [{level: Metadata}]")
	d.do("GET", configMaps, "")
	e := log.take(t)[0]
	if reason, given := e.Annotations["authorization.k8s.io/reason"]; e.Annotations["authorization.k8s.io/decision"] != "allow" ||
		!given || reason != "" {
		t.Errorf("annotations %v", e.Annotations)
	}
}

// TestEventsSayHowAUserIsImpersonated has the mode in the event, and none where the verb impersonate has allowed it.
func TestEventsSayHowAUserIsImpersonated(t *testing.T) {
	d, log := audited(t, "omitStages: [RequestReceived]\nrules: [{level: Metadata}]")
	for _, c := range [][2]string{{"dev", "impersonate:user-info"}, {"system:masters", ""}} {
		group, want := c[0], c[1]
		d.do("GET", configMaps, "", "Impersonate-User: bob", "Impersonate-Group: "+group)
		e := log.take(t)[0]
		got := ""
		if e.AuthenticationMetadata != nil {
			got = e.AuthenticationMetadata.ImpersonationConstraint
		}
		if got != want || e.ImpersonatedUser == nil || e.ImpersonatedUser.Username != "bob" {
			t.Errorf("in %s: %q, %v", group, got, e.ImpersonatedUser)
		}
	}
}

// BenchmarkAudit creates and lists config maps through the handler, with events in a file.
func BenchmarkAudit(b *testing.B) {
	live := kinds.NewLive(builtin.Catalog())
	reg := openRegistry(b, live)
	for _, level := range []string{"", "None", "Metadata", "Request", "RequestResponse"} {
		cfg := apiserver.Config{Reader: reg, Writer: reg, Live: live}
		if level != "" {
			p, err := audit.ParsePolicy(
				[]byte(
					"apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: " + level + "}]"))
			if err != nil {
				b.Fatalf("parse the policy: %v", err)
			}
			if cfg.Audit, err = audit.Open(p, audit.Options{Path: b.TempDir() + "/audit.log"}); err != nil {
				b.Fatalf("open the audit log: %v", err)
			}
			b.Cleanup(func() { _ = cfg.Audit.Close() })
		}
		handler := apiserver.New(b.Context(), cfg)
		b.Run("list/"+level, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				handler.ServeHTTP(&sink{header: http.Header{}}, get(b, "/api/v1/namespaces"))
			}
		})
		b.Run("create/"+level, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				body := `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"generateName":"made-"},"data":{"a":"` +
					strings.Repeat("x", 780) + `"}}`
				r := get(b, configMaps, "Content-Type: application/json")
				r.Method, r.Body, r.ContentLength = http.MethodPost, io.NopCloser(strings.NewReader(body)), int64(len(body))
				handler.ServeHTTP(&sink{header: http.Header{}}, r)
			}
		})
	}
}
