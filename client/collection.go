package client

import (
	"net/url"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Collection names what is listed and watched.
type Collection struct {
	schema.GroupVersionResource
	Namespace string // "": all namespaces, or a cluster-scoped resource
	// Shard is the shardSelector of each LIST and WATCH (KEP-5866, see [kube.Shard]); "":
	// all objects. It is here because metav1.ListOptions of client-go 0.32 has no such
	// field; that of newer ones is not sent.
	Shard string
}

// Path returns the collection's path below the server's root.
func (c Collection) Path() string {
	path := groupVersionPath(c.Group, c.Version)
	if c.Namespace != "" {
		path += "/namespaces/" + url.PathEscape(c.Namespace)
	}
	return path + "/" + url.PathEscape(c.Resource)
}

// String returns "pods", or "deployments.apps", followed by "/namespace" if
// there is one.
func (c Collection) String() string {
	s := c.GroupResource().String()
	if c.Namespace != "" {
		s += "/" + c.Namespace
	}
	return s
}

func groupVersionPath(group, version string) string {
	if group == "" {
		return "/api/" + url.PathEscape(version)
	}
	return "/apis/" + url.PathEscape(group) + "/" + url.PathEscape(version)
}

// query returns the query of a LIST or WATCH; options that are not set are not sent.
func (c Collection) query(o metav1.ListOptions) url.Values {
	q := url.Values{}
	set := func(name, value string) {
		if value != "" {
			q.Set(name, value)
		}
	}
	set("labelSelector", o.LabelSelector)
	set("fieldSelector", o.FieldSelector)
	set("resourceVersion", o.ResourceVersion)
	set("resourceVersionMatch", string(o.ResourceVersionMatch))
	set("continue", o.Continue)
	set("shardSelector", c.Shard)
	if o.Limit != 0 {
		q.Set("limit", strconv.FormatInt(o.Limit, 10))
	}
	if o.TimeoutSeconds != nil {
		q.Set("timeoutSeconds", strconv.FormatInt(*o.TimeoutSeconds, 10))
	}
	if o.AllowWatchBookmarks {
		q.Set("allowWatchBookmarks", "true")
	}
	if o.SendInitialEvents != nil {
		q.Set("sendInitialEvents", strconv.FormatBool(*o.SendInitialEvents))
	}
	return q
}
