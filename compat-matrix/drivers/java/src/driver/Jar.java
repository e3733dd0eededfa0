package driver;

/** What a library's file says of it. */
final class Jar {
    private Jar() {}

    /** The version in the name of the jar that a class is from. */
    static String version(Class<?> ofLibrary, String library) {
        String jar = ofLibrary.getProtectionDomain().getCodeSource().getLocation().getPath();
        return jar.replaceAll(".*/" + library + "-(.*)\\.jar", "$1");
    }
}
