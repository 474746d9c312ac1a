package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const deploy = "../../deploy"

// A pod is what is looked at of one.
type pod struct {
	SecurityContext struct {
		RunAsNonRoot bool `yaml:"runAsNonRoot"`
	} `yaml:"securityContext"`
	Volumes        []struct{ Name string }
	InitContainers []container `yaml:"initContainers"`
	Containers     []container
}

type container struct {
	Name          string
	Command, Args []string
	Env           []struct{ Name string }
	Ports         []struct {
		Name          string
		ContainerPort string `yaml:"containerPort"`
	}
	ReadinessProbe probe                   `yaml:"readinessProbe"`
	LivenessProbe  probe                   `yaml:"livenessProbe"`
	VolumeMounts   []struct{ Name string } `yaml:"volumeMounts"`
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

// object is a manifest with fields of all kinds.
type object struct {
	Kind string
	Spec struct {
		Selector map[string]any
		Ports    []struct {
			TargetPort string `yaml:"targetPort"`
		}
		Template struct {
			Metadata struct{ Labels map[string]any }
			Spec     yaml.Node
		}
	}
}

// TestManifests holds that what a manifest names is in it: ports, volumes, variables and
// labels; that the command is run with what "elector run" wants; and that nothing is root.
func TestManifests(t *testing.T) {
	files, err := filepath.Glob(deploy + "/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no manifests", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		labels, ports, runs := map[string]any{}, []string{}, 0
		for in := yaml.NewDecoder(bytes.NewReader(data)); ; {
			var o object
			if err := in.Decode(&o); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			switch o.Kind {
			case "Deployment":
				labels = o.Spec.Template.Metadata.Labels
				if match, _ := o.Spec.Selector["matchLabels"].(map[string]any); match["app"] == nil || match["app"] != labels["app"] {
					t.Errorf("%s: it selects %v, and its Pods are %v", file, match, labels)
				}
				named, run := checkPod(t, file, &o.Spec.Template.Spec)
				ports, runs = append(ports, named...), runs+run
			case "Service":
				if o.Spec.Selector["app"] == nil || o.Spec.Selector["app"] != labels["app"] {
					t.Errorf("%s: the Service selects %v, and the Pods are %v", file, o.Spec.Selector, labels)
				}
				for _, p := range o.Spec.Ports {
					if !slices.Contains(ports, p.TargetPort) {
						t.Errorf("%s: the Service leads to port %q, and there are %q", file, p.TargetPort, ports)
					}
				}
			default:
				t.Errorf("%s: kind %q", file, o.Kind)
			}
		}
		if runs != 1 {
			t.Errorf("%s: %d containers run elector, want one", file, runs)
		}
	}
}

// checkPod returns the names of a Pod's ports, and how many of its containers run the command.
func checkPod(t *testing.T, file string, spec *yaml.Node) (ports []string, runs int) {
	t.Helper()
	var p pod
	if err := spec.Decode(&p); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if !p.SecurityContext.RunAsNonRoot {
		t.Errorf("%s: it may run as root", file)
	}
	for _, c := range slices.Concat(p.InitContainers, p.Containers) {
		of := file + ", container " + c.Name
		for _, m := range c.VolumeMounts {
			if !slices.ContainsFunc(p.Volumes, func(v struct{ Name string }) bool { return v.Name == m.Name }) {
				t.Errorf("%s: no volume %q", of, m.Name)
			}
		}
		line := slices.Concat(c.Command, c.Args)
		for _, name := range regexp.MustCompile(`\$\(([A-Z_]+)\)`).FindAllStringSubmatch(strings.Join(line, " "), -1) {
			if !slices.ContainsFunc(c.Env, func(e struct{ Name string }) bool { return e.Name == name[1] }) {
				t.Errorf("%s: no variable %s", of, name[1])
			}
		}
		var own []string
		for _, port := range c.Ports {
			own = append(own, port.Name)
			if !slices.Contains(line, ":"+port.ContainerPort) {
				t.Errorf("%s: port %s is not in its command line %q", of, port.ContainerPort, line)
			}
		}
		ports = append(ports, own...)
		if slices.Contains(line, "run") {
			runs++
			if at := slices.Index(line, "--"); at < 0 || at == len(line)-1 || !slices.Contains(line[:at], "--http") {
				t.Errorf("%s: elector run URL /election --http ADDRESS -- PROGRAM is wanted: %q", of, line)
			}
		}
		for _, probe := range []probe{c.ReadinessProbe, c.LivenessProbe} {
			if get := probe.HTTPGet; get.Path != "" && (!slices.Contains([]string{"/leader", "/replica", "/healthz", "/status"}, get.Path) || !slices.Contains(own, get.Port)) {
				t.Errorf("%s: a probe asks %s at port %s", of, get.Path, get.Port)
			}
		}
	}
	return ports, runs
}

// TestDockerfile holds that what it copies is there, that it builds with a Go that the module
// takes, stamps the version where the command looks for it, and ends without root.
func TestDockerfile(t *testing.T) {
	data, err := os.ReadFile(deploy + "/Dockerfile")
	require.NoError(t, err)
	text := string(data)
	for _, m := range regexp.MustCompile(`(?m)^COPY ([^-].*) \S+$`).FindAllStringSubmatch(text, -1) {
		for from := range strings.FieldsSeq(m[1]) {
			if _, err := os.Stat(filepath.Join("../..", from)); err != nil {
				t.Errorf("COPY: %v", err)
			}
		}
	}
	command, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`(?m) => (\S+)$`).FindAllStringSubmatch(string(command), -1) {
		if mod := path.Join("cmd/elector", m[1], "go.mod"); !strings.Contains(text, "COPY "+mod+" ") {
			t.Errorf("go mod download needs %s, which is not there yet", mod)
		}
	}
	wanted := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(string(command))
	if image := regexp.MustCompile(`golang:(\S+)`).FindStringSubmatch(text); image == nil || !strings.HasPrefix(wanted[1], image[1]+".") {
		t.Errorf("it builds with %q, and go.mod wants %s", image, wanted[1])
	}
	// TestDist of the scripts holds that the linker finds it.
	const stamp = "-X github.com/elector-go/elector/cmd/elector/internal/cli.release=$"
	dist, err := os.ReadFile("../../scripts/dist.sh")
	require.NoError(t, err)
	if !strings.Contains(text, stamp) || !strings.Contains(string(dist), stamp) {
		t.Errorf("it does not stamp the version as scripts/dist.sh does, by %s", stamp)
	}
	for _, from := range regexp.MustCompile(`(?m)^FROM (gcr\S+)`).FindAllStringSubmatch(text, -1) {
		if !strings.HasSuffix(from[1], "nonroot") {
			t.Errorf("%s runs as root", from[1])
		}
	}
}
