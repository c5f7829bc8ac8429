package past

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless/internal/past"
	"github.com/gapless-io/gapless/kube"
)

// document is a change as -o json and -o yaml print it.
type document struct {
	Type            string               `json:"type"`
	ResourceVersion kube.ResourceVersion `json:"resourceVersion,string"`
	Time            time.Time            `json:"time"`
	Namespace       string               `json:"namespace,omitempty"`
	Name            string               `json:"name"`
	By              []past.Author        `json:"by,omitempty"`
	Users           []string             `json:"users,omitempty"`
	Unseen          bool                 `json:"unseen,omitempty"` // the server found it later
	StatusOnly      bool                 `json:"statusOnly,omitempty"`
	Changes         []field              `json:"changes,omitempty"`
	Diff            string               `json:"diff,omitempty"`
	Object          past.Tree            `json:"object"`
	Previous        past.Tree            `json:"previous,omitempty"`
}

// field is a place in which two states differ.
type field struct {
	Path   string    `json:"path"`
	Kind   past.Kind `json:"kind"`
	Before any       `json:"before,omitempty"`
	After  any       `json:"after,omitempty"`
}

func fieldsOf(found []past.Difference) []field {
	all := make([]field, 0, len(found))
	for _, d := range found {
		all = append(all, field{d.Path.String(), d.Kind, d.Before, d.After})
	}
	return all
}

// document prints a change: JSON one per line, YAML one per document.
func (h *history) document(of told) error {
	d := document{
		Type: of.Type, ResourceVersion: of.ResourceVersion, Time: of.Time.In(h.program.Now().Location()), By: of.by,
		Users:  of.users,
		Unseen: of.Unseen, StatusOnly: past.OnlyStatus(of.found), Changes: fieldsOf(of.found),
		Object: h.mask.Mask(of.Object), Previous: h.mask.Mask(of.Previous),
	}
	d.Namespace, d.Name = of.name()
	if h.flags.diff {
		diff, err := h.diffOf(of)
		if err != nil {
			return err
		}
		d.Diff = string(diff)
	}
	return h.program.document(d, h.flags.output)
}

// document prints a value: JSON in one line, YAML as a document.
func (p Program) document(value any, output string) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("encode what is printed: %w", err)
	}
	out := text.Bytes()
	if output == "yaml" {
		converted, err := yaml.JSONToYAML(out)
		if err != nil {
			return fmt.Errorf("encode what is printed: %w", err)
		}
		out = append([]byte("---\n"), converted...)
	}
	_, err := p.Out.Write(out)
	return err
}
