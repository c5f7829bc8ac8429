package bootstrap

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	flowcontrol "k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// references are the priority levels that FlowSchemas refer to.
type references struct {
	// mu guards the fields below.
	mu  sync.Mutex
	of  map[string]string              // the level, by the name of the schema
	all map[string]map[string]struct{} // the names of the schemas, by that of the level
}

// set notes the level of a schema; "": the schema is gone.
func (r *references) set(schema, level string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of, r.all = map[string]string{}, map[string]map[string]struct{}{}
	}
	before := r.of[schema]
	if delete(r.all[before], schema); len(r.all[before]) == 0 {
		delete(r.all, before)
	}
	if delete(r.of, schema); level == "" {
		return
	}
	r.of[schema] = level
	if r.all[level] == nil {
		r.all[level] = map[string]struct{}{}
	}
	r.all[level][schema] = struct{}{}
}

// to returns the tasks for the schemas that refer to a level.
func (r *references) to(level string) []task {
	r.mu.Lock()
	defer r.mu.Unlock()
	var tasks []task
	for schema := range r.all[level] {
		tasks = append(tasks, task{dangling, schema})
	}
	return tasks
}

// conditions are the tasks for the schemas that every cluster has.
func (c *Controller) conditions() []task {
	var tasks []task
	for name := range c.flows {
		if schema, is := strings.CutPrefix(name, flowName(flowSchemas(), "")); is {
			tasks = append(tasks, task{dangling, schema})
		}
	}
	return tasks
}

// watchedFlows are the watches of all objects of flow control, those of users too.
func (c *Controller) watchedFlows() []watched {
	if len(c.flows) == 0 {
		return nil
	}
	return []watched{
		{target: c.target(flowSchemas(), ""), seen: c.seenSchema},
		{target: c.target(priorityLevels(), ""), seen: c.seenLevel},
	}
}

func (c *Controller) seenSchema(e wire.WatchEvent) []task {
	if e.Object == nil {
		return nil
	}
	name, schema := e.Object.Key().Name, &flowcontrolv1.FlowSchema{}
	if e.Type == kube.Deleted || json.Unmarshal(e.Object.JSON(), schema) != nil { // the registry has decoded it before
		c.references.set(name, "")
		return c.seenFlow(flowSchemas(), e)
	}
	c.references.set(name, schema.Spec.PriorityLevelConfiguration.Name)
	return append(c.seenFlow(flowSchemas(), e), task{dangling, name})
}

func (c *Controller) seenLevel(e wire.WatchEvent) []task {
	switch {
	case e.Object == nil:
		return nil
	case e.Type == kube.Modified:
		return c.seenFlow(priorityLevels(), e)
	}
	return append(c.seenFlow(priorityLevels(), e), c.references.to(e.Object.Key().Name)...)
}

// seenFlow returns the task for an object that every cluster has, or had.
func (c *Controller) seenFlow(resource kinds.GroupResource, e wire.WatchEvent) []task {
	name := flowName(resource, e.Object.Key().Name)
	switch _, wanted := c.flows[name]; {
	case wanted:
		return []task{{flowObject, name}}
	case e.Type == kube.Deleted || c.shared || !autoUpdated(e.Object.JSON()):
		return nil
	}
	return []task{{unwantedFlow, name}}
}

// autoUpdated reports whether an object says that its server updates it.
func autoUpdated(text []byte) bool {
	var o metav1.PartialObjectMetadata
	if json.Unmarshal(text, &o) != nil {
		return false
	}
	says, err := strconv.ParseBool(o.Annotations[flowcontrolv1.AutoUpdateAnnotationKey])
	return err == nil && says
}

// removeFlow deletes an object that says that its server updates it, but that no server knows any more.
func (c *Controller) removeFlow(ctx context.Context, name string) error {
	plural, name, _ := strings.Cut(name, "/")
	t := c.target(flowcontrolv1.Resource(plural), "")
	t.Name = name
	there, err := c.verbs.Get(ctx, t, "")
	if err == nil && autoUpdated(there.JSON()) {
		uid, version := there.UID(), strconv.FormatUint(uint64(there.ResourceVersion()), 10)
		_, err = c.verbs.Delete(ctx, t, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
		})
	}
	if isNotFound(err) || isConflict(err) {
		return nil // an event of what it is now follows
	}
	return err
}

// note writes into the status of a FlowSchema whether the level is there that it refers to, as kube-apiserver does it: by
// an apply of that condition.
func (c *Controller) note(ctx context.Context, name string) error {
	t := c.target(flowSchemas(), "")
	t.Name, t.Subresource = name, "status"
	there, err := c.verbs.Get(ctx, t, "")
	if isNotFound(err) {
		return nil // it was deleted
	}
	if err != nil {
		return err
	}
	var schema flowcontrolv1.FlowSchema
	if err := json.Unmarshal(there.JSON(), &schema); err != nil {
		return err
	}
	exists, err := c.isLevel(ctx, schema.Spec.PriorityLevelConfiguration.Name)
	if err != nil {
		return err
	}
	condition, changed := danglingOf(&schema, exists)
	if !changed {
		return nil
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": flowcontrolv1.SchemeGroupVersion.String(), "kind": "FlowSchema",
		"metadata": map[string]any{"name": name}, "status": map[string]any{"conditions": []any{condition}},
	})
	if err != nil {
		return err
	}
	_, err = c.verbs.Patch(ctx, t, wire.Patch{Type: types.ApplyYAMLPatchType, Body: body},
		metav1.PatchOptions{FieldManager: flowConsumer, Force: new(true)})
	if isNotFound(err) {
		return nil
	}
	return err
}

// isLevel reports whether there is a level, or will be: the mandatory ones are made again.
func (c *Controller) isLevel(ctx context.Context, name string) (bool, error) {
	if slices.ContainsFunc(flowcontrol.MandatoryPriorityLevelConfigurations,
		func(l *flowcontrolv1.PriorityLevelConfiguration) bool { return l.Name == name }) {
		return true, nil
	}
	t := c.target(priorityLevels(), "")
	t.Name = name
	_, err := c.verbs.Get(ctx, t, "")
	if isNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// danglingOf returns the condition, with the texts of apiserver util/flowcontrol, and reports whether it is another one
// than before.
func danglingOf(o *flowcontrolv1.FlowSchema, exists bool) (want flowcontrolv1.FlowSchemaCondition, changed bool) {
	level := o.Spec.PriorityLevelConfiguration.Name
	want = flowcontrolv1.FlowSchemaCondition{
		Type: flowcontrolv1.FlowSchemaConditionDangling, Status: flowcontrolv1.ConditionFalse, Reason: "Found",
		Message: fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q and it exists", level),
	}
	if !exists {
		want.Status, want.Reason = flowcontrolv1.ConditionTrue, "NotFound"
		want.Message = fmt.Sprintf(
			"This FlowSchema references the PriorityLevelConfiguration object named %q but there is no such object", level)
	}
	for _, has := range o.Status.Conditions {
		if has.LastTransitionTime = want.LastTransitionTime; has == want {
			return want, false
		}
	}
	want.LastTransitionTime = metav1.Now()
	return want, true
}
