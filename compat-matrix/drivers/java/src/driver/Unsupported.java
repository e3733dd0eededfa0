package driver;

/** This client has no way to do it, whatever the server says. */
public final class Unsupported extends RuntimeException {
    private static final long serialVersionUID = 1;

    public Unsupported(String why) {
        super(why);
    }
}
