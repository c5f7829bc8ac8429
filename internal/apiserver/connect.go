package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/gapless-io/gapless/internal/apiserver/route"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// connect answers a request to what runs in a cluster. Nothing does here; but what upstream refuses before it connects
// is refused as it does it: where there is no such pod, or it is on no node (kubernetes pkg/registry/core/pod
// strategy.go, and ResourceLocation of nodes and services). The logs of such a pod are empty.
func (s *Server) connect(w http.ResponseWriter, r *http.Request, c route.Connection) error {
	var err error
	switch c.Resource.Plural + "/" + c.Subresource {
	case "pods/proxy":
		err = s.findProxied(r.Context(), c.Target)
	case "services/proxy":
		err = s.findEndpoints(r.Context(), c.Target)
	case "nodes/proxy":
		_, name, _, valid := utilnet.SplitSchemeNamePort(c.Name)
		if !valid {
			return wire.BadRequest("invalid node request %q", c.Name)
		}
		err = s.findNode(r.Context(), name)
	default:
		var empty bool
		if empty, err = s.findPod(r.Context(), c.Target, r.URL.Query().Get("container")); empty {
			w.WriteHeader(http.StatusNoContent)
			return nil
		}
	}
	if err != nil {
		return err
	}
	return route.NotServed(s.cfg.Live.Load(), c.Path)
}

// decode decodes the object of a target.
func (s *Server) decode(ctx context.Context, t kinds.Target, into any) error {
	t.Subresource = ""
	o, err := s.cfg.Reader.Get(ctx, t, "")
	if err != nil {
		return err
	}
	return json.Unmarshal(o.JSON(), into)
}

// findPod refuses what upstream refuses of a pod, and reports whether the pod has no logs yet.
func (s *Server) findPod(ctx context.Context, t kinds.Target, container string) (empty bool, err error) {
	var pod corev1.Pod
	if err := s.decode(ctx, t, &pod); err != nil {
		return false, err
	}
	if t.Subresource != "portforward" {
		if err := checkContainer(&pod, container); err != nil {
			return false, err
		}
	}
	switch {
	case pod.Spec.NodeName != "":
		err := s.findNode(ctx, pod.Spec.NodeName)
		if wire.StatusOf(err).Code == http.StatusNotFound {
			err = wire.NotFound(t.Resource.GR(), pod.Spec.NodeName) // upstream calls it a pod, as the path does
		}
		return false, err
	case t.Subresource == "log":
		return true, nil
	}
	return false, wire.BadRequest("pod %s does not have a host assigned", t.Name)
}

// checkContainer requires the name of a container of a pod, unless it has only one.
func checkContainer(pod *corev1.Pod, name string) error {
	if name == "" && len(pod.Spec.Containers) == 1 {
		return nil
	}
	var names []string
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			names = append(names, list[i].Name)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		names = append(names, pod.Spec.EphemeralContainers[i].Name)
	}
	switch {
	case name == "":
		return wire.BadRequest("a container name must be specified for pod %s, choose one of: %s", pod.Name, names)
	case !slices.Contains(names, name):
		return wire.BadRequest("container %s is not valid for pod %s", name, pod.Name)
	}
	return nil
}

func (s *Server) findNode(ctx context.Context, name string) error {
	nodes, _ := s.cfg.Live.Load().Lookup(kinds.GroupVersionResource{Version: "v1", Resource: "nodes"})
	return s.decode(ctx, kinds.Target{Resource: nodes, Name: name}, &corev1.Node{})
}

// findProxied refuses a pod without an address.
func (s *Server) findProxied(ctx context.Context, t kinds.Target) error {
	_, name, _, valid := utilnet.SplitSchemeNamePort(t.Name)
	if !valid {
		return wire.BadRequest("invalid pod request %q", t.Name)
	}
	var pod corev1.Pod
	t.Name = name
	if err := s.decode(ctx, t, &pod); err != nil {
		return err
	}
	if len(pod.Status.PodIPs) > 0 {
		if ip := net.ParseIP(pod.Status.PodIPs[0].IP); ip != nil && ip.IsGlobalUnicast() {
			return nil
		}
	}
	return wire.BadRequest("address not allowed")
}

// findEndpoints refuses a service without the port, or without endpoints.
func (s *Server) findEndpoints(ctx context.Context, t kinds.Target) error {
	_, name, port, valid := utilnet.SplitSchemeNamePort(t.Name)
	if !valid {
		return wire.BadRequest("invalid service request %q", t.Name)
	}
	if n, err := strconv.ParseInt(port, 10, 64); err == nil {
		var service corev1.Service
		t.Name = name
		if err := s.decode(ctx, t, &service); err != nil {
			return err
		}
		if !slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return int64(p.Port) == n }) {
			return wire.Unavailable(fmt.Sprintf("no service port %d found for service %q", n, name), 0)
		}
	}
	slicesOf, _ := s.cfg.Live.Load().Lookup(discoveryv1.SchemeGroupVersion.WithResource("endpointslices"))
	list, err := s.cfg.Reader.List(ctx, kinds.Target{Resource: slicesOf, Namespace: t.Namespace}, wire.ListOptions{
		Labels: labels.Set{discoveryv1.LabelServiceName: name}.AsSelector(), Fields: fields.Everything(),
	})
	if err != nil {
		return err
	}
	for _, err := range list.Items {
		return err // there is one, or it cannot be read
	}
	return wire.Unavailable(fmt.Sprintf("no endpoints available for service %q", name), 0)
}
