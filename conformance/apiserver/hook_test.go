package apiserver_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gapless-io/gapless/conformance/differential/play"
	"github.com/gapless-io/gapless/conformance/differential/script"
)

// hook is a server of webhooks, which records what it is asked. The last element of the path says
// how a webhook behaves; the one before tells those apart that behave alike.
type hook struct {
	*httptest.Server

	mu sync.Mutex
	// mu guards asked: reviews by path, in their order.
	asked map[string][][]byte
}

func newHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{}
	h.Server = httptest.NewUnstartedServer(http.HandlerFunc(h.serve))
	h.EnableHTTP2 = true
	h.StartTLS()
	t.Cleanup(h.Close)
	return h
}

// ca is the certificate of the webhooks as clientConfig.caBundle has it.
func (h *hook) ca() string {
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw}))
}

func (h *hook) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = map[string][][]byte{}
}

// heard are the reviews as results of a script, sorted by path: validating webhooks are called
// at the same time.
func (h *hook) heard() []play.Result {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []play.Result
	const behind = 10_000 // the lines of any script
	for _, at := range slices.Sorted(maps.Keys(h.asked)) {
		// The same webhook has the same line on both servers, also if one asks fewer.
		line := behind + int(crc32.ChecksumIEEE([]byte(at))&0xffffff)<<8
		for i, review := range h.asked[at] {
			all = append(all, play.Result{
				Case:   "review " + at,
				Step:   script.Step{Line: line + i, Text: fmt.Sprintf("review %d of %s", i+1, at), Method: http.MethodGet},
				Answer: &play.Answer{Code: http.StatusOK, Body: plain(review)},
			})
		}
	}
	return all
}

// requestUID is the number of a question. That of an object is compared.
var requestUID = regexp.MustCompile(`"request":\{"uid":"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"`)

// generated is a name by the only generateName in the scripts.
var generated = regexp.MustCompile(`"name":"d-[a-z0-9]{5}"`)

// plain is a review without what is random.
func plain(review []byte) []byte {
	review = requestUID.ReplaceAll(review, []byte(`"request":{"uid":"a uid"`))
	return bytes.TrimSpace(generated.ReplaceAll(review, []byte(`"name":"d-<5 letters>"`)))
}

// review is what of a question matters to the answer.
type review struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Request    struct {
		UID       string          `json:"uid"`
		Operation string          `json:"operation"`
		Object    json.RawMessage `json:"object"`
	} `json:"request"`
}

func (h *hook) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller has left
	}
	if !strings.Contains(r.URL.Path, "/quiet/") { // of which one does not know how often it is called
		h.mu.Lock()
		h.asked[r.URL.Path] = append(h.asked[r.URL.Path], body)
		h.mu.Unlock()
	}
	var asked review
	if err := json.Unmarshal(body, &asked); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	behaviour := path.Base(r.URL.Path)
	switch behaviour {
	case "slow":
		<-r.Context().Done()
		return
	case "500":
		http.Error(w, "boom", http.StatusInternalServerError)
		return
	case "404":
		http.NotFound(w, r)
		return
	case "redirect":
		http.Redirect(w, r, "/redirected/allow", http.StatusTemporaryRedirect)
		return
	case "garbage":
		_, _ = io.WriteString(w, "{garbage") // the caller may have left
		return
	case "empty":
		return
	case "array":
		_, _ = io.WriteString(w, `[1]`) // the caller may have left
		return
	}
	answer := map[string]any{"apiVersion": asked.APIVersion, "kind": asked.Kind}
	if behaviour != "noresponse" {
		answer["response"] = respond(behaviour, asked)
	}
	switch behaviour {
	case "kind":
		answer["kind"] = "Other"
	case "version":
		answer["apiVersion"] = "admission.k8s.io/v7"
	case "nokind":
		delete(answer, "kind")
		delete(answer, "apiVersion")
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the caller may have left
}

// respond is the response of a webhook that answers as it should, more or less.
func respond(behaviour string, asked review) map[string]any {
	response := map[string]any{"uid": asked.Request.UID, "allowed": true}
	if patch, ok := patches()[behaviour]; ok {
		response["patchType"], response["patch"] = "JSONPatch", []byte(patch)
		return response
	}
	status := func(members map[string]any) { response["allowed"], response["status"] = false, members }
	switch behaviour {
	case "uid":
		response["uid"] = "another"
	case "deny":
		status(map[string]any{"message": "it is not wanted"})
	case "denycode":
		status(map[string]any{"message": "a teapot", "code": 418, "reason": "Teapot"})
	case "denyreason":
		status(map[string]any{"reason": "it is full"})
	case "denysilently":
		response["allowed"] = false
	case "deny200":
		status(map[string]any{"message": "fine", "code": 200})
	case "denydetails":
		status(map[string]any{
			"message": "two causes", "code": 422, "reason": "Invalid", "status": "Failure",
			"details": map[string]any{
				"causes": []any{map[string]any{"field": "data.a", "message": "bad", "reason": "FieldValueInvalid"}},
			},
		})
	case "warn":
		response["warnings"] = []string{"first warning", "a \"quoted\" one", "a\nline", strings.Repeat("long ", 100)}
	case "warndeny":
		response["warnings"] = []string{"and a warning"}
		status(map[string]any{"message": "no"})
	case "annotate":
		response["auditAnnotations"] = map[string]string{"key": "value", "other": "text", "bad/key/x": "y"}
	case "nopatchtype":
		response["patch"] = []byte(`[{"op":"add","path":"/data/x","value":"1"}]`)
	case "otherpatchtype":
		response["patch"], response["patchType"] = []byte(`{"data":{"x":"1"}}`), "MergePatch"
	case "emptypatch":
		response["patch"], response["patchType"] = []byte(``), "JSONPatch"
	case "onlypatchtype":
		response["patchType"] = "JSONPatch"
	case "denypatch":
		response["patch"], response["patchType"] = []byte(`[{"op":"add","path":"/data/x","value":"1"}]`), "JSONPatch"
		status(map[string]any{"message": "no, but changed"})
	}
	return response
}

// patches are the JSON patches of the webhooks of that name.
func patches() map[string]string {
	return map[string]string{
		"addx":          `[{"op":"add","path":"/data/x","value":"1"}]`,
		"addy":          `[{"op":"add","path":"/data/y","value":"1"}]`,
		"label":         `[{"op":"add","path":"/metadata/labels/by","value":"hook"}]`,
		"append":        `[{"op":"add","path":"/data/log","value":"a"}]`,
		"copy":          `[{"op":"copy","from":"/data/a","path":"/data/copied"}]`,
		"nothing":       `[]`,
		"patchgarbage":  `[{`,
		"patchobject":   `{"op":"add"}`,
		"patchop":       `[{"op":"increment","path":"/data/x"}]`,
		"patchtest":     `[{"op":"test","path":"/data/a","value":"never"}]`,
		"patchmissing":  `[{"op":"remove","path":"/data/nowhere"}]`,
		"patchname":     `[{"op":"replace","path":"/metadata/name","value":"other"}]`,
		"patchspace":    `[{"op":"replace","path":"/metadata/namespace","value":"default"}]`,
		"patchuid":      `[{"op":"add","path":"/metadata/uid","value":"7e57aaaa-0000-4000-8000-000000000000"}]`,
		"patchversion":  `[{"op":"add","path":"/metadata/resourceVersion","value":"1"}]`,
		"patchkind":     `[{"op":"replace","path":"/kind","value":"Secret"}]`,
		"patchinvalid":  `[{"op":"add","path":"/data/a~1b","value":"1"}]`,
		"patchtype":     `[{"op":"add","path":"/data/x","value":1}]`,
		"patchunknown":  `[{"op":"add","path":"/unknown","value":1}]`,
		"patchstatus":   `[{"op":"add","path":"/status","value":{"phase":"hooked"}}]`,
		"patchspec":     `[{"op":"add","path":"/spec","value":{"color":"hooked"}}]`,
		"patchcreated":  `[{"op":"replace","path":"/metadata/creationTimestamp","value":"2001-01-01T00:00:00Z"}]`,
		"patchmanagers": `[{"op":"add","path":"/metadata/managedFields","value":[]}]`,
	}
}
