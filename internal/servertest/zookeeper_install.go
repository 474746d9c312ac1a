package servertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const zooKeeperMain = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

// zooKeeperJars are the jars that a server needs, by their Debian names. Only the admin server, which is
// off, needs jackson and jetty.
var zooKeeperJars = []string{
	"zookeeper.jar", "zookeeper-jute.jar",
	"slf4j-api.jar", "slf4j-simple.jar",
	"netty-buffer.jar", "netty-codec.jar", "netty-common.jar", "netty-handler.jar",
	"netty-resolver.jar", "netty-transport.jar", "netty-transport-native-epoll.jar",
	"netty-transport-native-unix-common.jar",
	"snappy-java.jar", "metrics-core.jar",
}

// zooKeeperJarDir returns the folder that holds the jars: $ELECTOR_ZK_JARS, or Debian's.
func zooKeeperJarDir() string {
	if dir := os.Getenv("ELECTOR_ZK_JARS"); dir != "" {
		return dir
	}
	return "/usr/share/java"
}

// zooKeeperClassPath finds the jars. The folder may be laid out like Debian's (plain names, among many
// other jars) or like the lib folder of an Apache release (versioned names, nothing else in it).
func zooKeeperClassPath(dir string) (string, error) {
	var paths, missing []string
	for _, name := range zooKeeperJars {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err != nil {
			missing = append(missing, name)
			continue
		}
		paths = append(paths, path)
	}
	if len(missing) == 0 {
		return strings.Join(paths, string(os.PathListSeparator)), nil
	}
	release, err := filepath.Glob(filepath.Join(dir, "zookeeper-[0-9]*.jar"))
	if err == nil && len(release) > 0 && len(missing) == len(zooKeeperJars) {
		return filepath.Join(dir, "*"), nil
	}
	return "", notInstalled(fmt.Sprintf("%s has no %s", dir, strings.Join(missing, ", ")))
}

// javaPath finds java in $JAVA_HOME, then in $PATH.
func javaPath() (string, error) {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		if path, err := exec.LookPath(filepath.Join(home, "bin", "java")); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath("java")
	if err != nil {
		return "", notInstalled("no java in JAVA_HOME or PATH")
	}
	return path, nil
}

func notInstalled(what string) error {
	return fmt.Errorf("servertest: ZooKeeper: %w: %s; run 'make setup', or install the packages "+
		"'zookeeper openjdk-17-jre-headless' (or point ELECTOR_ZK_JARS at a folder with the server's jars)",
		ErrNotInstalled, what)
}
